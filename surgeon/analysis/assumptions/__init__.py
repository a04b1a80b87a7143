"""Assumptions that users declare about a model's inputs, and their consequences for other tensors.

A model carries its assumptions as metadata, so they are available everywhere: for generated inputs, the user's inputs,
conditions of rules, and proofs.
"""

__all__ = ["assumed_facts", "assumption", "model_assumptions"]
