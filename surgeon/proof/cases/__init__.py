"""The sizes and values of inputs that a proof tries."""

__all__ = ["cache_limit", "case_inputs", "dim_assignment", "dims", "literal_injection", "reduced_dims", "region_traits"]
