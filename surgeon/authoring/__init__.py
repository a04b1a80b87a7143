"""For people who write rules: capture from a model, learn from code, try, test and prove a rule.

It must not import commands.  Start with `capture.py` and `rule_proof/prover.py`.
"""

__all__ = ["capture", "learning", "rule_proof", "testing", "try_rule"]
