"""Tools for authors of rules: capture a pattern from a model, learn one from code; try, test and prove a rule.

It must not import commands.  Start with `capture.py` and `rule_proof/prover.py`.
"""

__all__ = ["capture", "learning", "rule_proof", "testing", "try_rule"]
