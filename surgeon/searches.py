"""Searches for rules that no pattern can describe: `@rule(search=searches.repeated_nodes)`."""

from surgeon.rules.matching.pattern import Found, Search
from surgeon.rules.searches.constant_conditions import always_true, decided_branches, never_true, one_sided
from surgeon.rules.searches.constant_folding import constant_subgraphs
from surgeon.rules.searches.counted_loops import counted_loops
from surgeon.rules.searches.duplicate_initializers import equal_initializers
from surgeon.rules.searches.duplicate_nodes import repeated_nodes
from surgeon.rules.searches.duplicate_sizes import repeated_sizes
from surgeon.rules.searches.expanded_operands import expanded_operands
from surgeon.rules.searches.function_ops import defined_nodes, standard_body
from surgeon.rules.searches.moved_layouts import moved_layouts
from surgeon.rules.searches.no_op_nodes import copied_outputs, neutral_arithmetic, neutral_tensors, unread_nodes
from surgeon.rules.searches.positional_arguments import unnamed_arguments
from surgeon.rules.searches.redundant_casts import whole_casts
from surgeon.rules.searches.redundant_qdq import quantized_already
from surgeon.rules.searches.sequential_gathers import gathers_in_order

__all__ = [
    "Found", "Search", "always_true", "constant_subgraphs", "copied_outputs", "counted_loops", "decided_branches",
    "defined_nodes", "equal_initializers", "expanded_operands", "gathers_in_order", "moved_layouts",
    "neutral_arithmetic", "neutral_tensors", "never_true", "one_sided", "quantized_already", "repeated_nodes",
    "repeated_sizes", "standard_body", "unnamed_arguments", "unread_nodes", "whole_casts",
]  # fmt: skip
