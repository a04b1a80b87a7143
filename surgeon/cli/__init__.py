"""The command line: options, commands, progress, and report files.

Its commands only call functions that Python users have too.  Start with `app.py` and one file of `commands`.
"""

__all__ = ["app"]
