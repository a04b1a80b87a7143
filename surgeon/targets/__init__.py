"""Platforms for models: a target per file, each a value `TARGET` that `--target` finds by the name of its module.

A target of a user is such a value too, named by an entry point of the group `surgeon.targets`.  It knows no proofs,
so it must not import `proof` or anything above.  Start with `target.py` and `op_support.py`.
"""

__all__ = ["check_context", "inspection", "lint", "op_limits", "op_support", "target", "user_ops"]
