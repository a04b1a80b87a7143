"""Searches for rules that no pattern can say: `@rule(search=searches.repeated_nodes)`."""

from surgeon.matching.pattern import Found, Search
from surgeon.searches.bodies import defined_nodes, standard_body
from surgeon.searches.branches import always_true, decided_branches, never_true, one_sided
from surgeon.searches.counted_loops import counted_loops
from surgeon.searches.equal_initializers import equal_initializers
from surgeon.searches.folding import constant_subgraphs
from surgeon.searches.gathers import gathers_in_order
from surgeon.searches.idle import neutral_arithmetic, unread_nodes
from surgeon.searches.placeholders import unnamed_arguments
from surgeon.searches.quantized import quantized_already
from surgeon.searches.repeated_sizes import repeated_sizes
from surgeon.searches.repeats import repeated_nodes
from surgeon.searches.whole_casts import whole_casts

__all__ = [
    "Found",
    "Search",
    "always_true",
    "constant_subgraphs",
    "counted_loops",
    "decided_branches",
    "defined_nodes",
    "equal_initializers",
    "gathers_in_order",
    "neutral_arithmetic",
    "never_true",
    "one_sided",
    "quantized_already",
    "repeated_nodes",
    "repeated_sizes",
    "standard_body",
    "unnamed_arguments",
    "unread_nodes",
    "whole_casts",
]
