"""A draft of a model that edits change, what they claim, and how the claim is checked."""

__all__ = [
    "batch_samples",
    "claim",
    "claim_check",
    "declared_dims",
    "draft",
    "driver",
    "dynamic_dims_check",
    "edit",
    "inline_branch",
    "node_insertion",
    "prune",
    "structural_proof",
    "subgraph",
    "tensor_renaming",
]
