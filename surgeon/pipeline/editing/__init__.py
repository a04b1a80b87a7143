"""Applies whole-model edits to a draft, checks their claims about the result, and saves."""

__all__ = [
    "batch_samples",
    "claim",
    "claim_check",
    "declared_dims",
    "draft",
    "dynamic_dims_check",
    "edit",
    "edit_group",
    "inline_branch",
    "node_insertion",
    "prune",
    "structural_proof",
    "subgraph",
    "tensor_renaming",
    "trial_runs",
]
