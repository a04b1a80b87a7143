"""Searches for rules that no pattern can say: `@rule(search=searches.repeated_nodes)`."""

from surgeon.matching.search import Found, Search
from surgeon.searches.equal_initializers import equal_initializers
from surgeon.searches.folding import constant_subgraphs
from surgeon.searches.neutral import neutral_arithmetic
from surgeon.searches.placeholders import unnamed_arguments
from surgeon.searches.repeats import repeated_nodes

__all__ = [
    "Found",
    "Search",
    "constant_subgraphs",
    "equal_initializers",
    "neutral_arithmetic",
    "repeated_nodes",
    "unnamed_arguments",
]
