"""Why a rule does not match, whether a target supports a model, and which rules or commands help.

This package changes no model.  Start with `explanation.py` and `target_check.py`.
"""

__all__ = ["explanation", "rule_search", "target_check"]
