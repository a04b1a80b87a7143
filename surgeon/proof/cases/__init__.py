"""The sizes and values of inputs that a proof tries."""

__all__ = ["case_inputs", "dim_assignment", "literal_injection", "reduced_dims", "size_strategies", "value_strategies"]
