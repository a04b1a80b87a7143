"""A model to look at in a browser or a notebook."""

__all__ = ["server", "session", "view"]
