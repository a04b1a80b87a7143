"""Pages and notebook cells."""

__all__ = ["elements", "page", "render"]
