"""Why a rule does not match, whether a target takes a model, and which rules or commands help.

It changes no model.  Start with `explanation.py` and `target_check.py`.
"""

__all__ = ["explanation", "target_check"]
