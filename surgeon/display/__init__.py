"""Results for people: text in a terminal, pages, pictures, differences, and the viewer.

It shows what reports contain, and analyses no models itself except to draw and compare them.  Start with
`content/rewrite.py` and `terminal/rewrite.py`.
"""

__all__ = ["content", "diff", "html", "pictures", "terminal", "viewer"]
