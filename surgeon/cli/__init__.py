"""The command line: options, commands, progress, and files of reports.

It holds no logic that Python users lack.  Start with `app.py` and one file of `commands`.
"""

__all__ = ["app"]
