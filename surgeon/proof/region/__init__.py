"""The part of a model that a proof runs, and the facts about its inputs."""

__all__ = [
    "backward_slice",
    "data_dependence",
    "literals",
    "region",
    "region_inputs",
    "region_models",
    "size_decisions",
    "value_equivalence",
]
