"""Results for people: blocks that a terminal and a page show, pictures, differences, and the viewer.

It shows what reports contain, and analyses no models itself except to draw and compare them.  Start with
`blocks.py` and `content/rewrite.py`.
"""

__all__ = [
    "content",
    "diff",
    "envelope",
    "gate_files",
    "html",
    "pictures",
    "registry",
    "renderers",
    "terminal",
    "viewer",
]
