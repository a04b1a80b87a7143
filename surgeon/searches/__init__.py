"""Searches for rules that no pattern can say: `@rule(search=searches.repeated_nodes)`."""

from surgeon.matching.search import Found, Search
from surgeon.searches.folding import constant_subgraphs
from surgeon.searches.neutral import neutral_arithmetic
from surgeon.searches.repeats import repeated_nodes

__all__ = ["Found", "Search", "constant_subgraphs", "neutral_arithmetic", "repeated_nodes"]
