"""Results for people: text in a terminal, pages, pictures, differences, and the viewer.

It computes nothing about models that a report does not hold.  Start with `content/rewrite.py` and
`terminal/rewrite.py`.
"""

__all__ = ["content", "diff", "html", "pictures", "terminal", "viewer"]
