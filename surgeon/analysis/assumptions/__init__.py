"""Assumptions that users declare of a model's inputs, and their consequences for other tensors.

A model carries its assumptions as metadata, so whoever has the model has them: generated inputs, the user's inputs,
conditions of rules and proofs.
"""

__all__ = ["assumed_facts", "assumption", "model_assumptions"]
