"""The gate: facts about models, which a repository holds as a baseline, and the regressions since.

It judges no speed and keeps no history.  Start with `run_gate.py`.
"""

__all__ = ["baseline_file", "gate_result", "gate_rules", "model_comparison", "model_facts", "run_gate"]
