"""Models in another precision: one dtype for each tensor, the fewest Casts between, and why a node keeps its own."""
