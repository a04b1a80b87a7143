"""Pages and notebook cells."""

__all__ = ["elements", "html_renderer", "page", "render"]
