"""A model as a graph: scopes, nodes, producers and consumers, constants, and the only code that changes them.

It knows neither patterns nor runtimes, so it must not import `shapes` or anything above.  Start with `index.py` and
`scope.py`; only `mutations.py` changes them, and `index_patch.py` writes the changes as bytes.
`structure.py` says which nodes and regions are equal up to names.
"""

__all__ = [
    "constants",
    "divisors",
    "edges",
    "equivalence",
    "folding_kernels",
    "fresh_names",
    "function_table",
    "index",
    "index_patch",
    "mutations",
    "original_model",
    "scope",
    "structure",
    "structure_hash",
    "verifier",
    "verify_rewrite",
]
