"""Models joined into one, and one cut into several."""

__all__ = ["merge", "split"]
