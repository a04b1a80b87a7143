"""The result of the gate in formats that other programs read: SARIF, JUnit XML, and Markdown.

Only SARIF has paths and lines.  Start with `gate_file.py`.
"""

__all__ = ["gate_file"]
