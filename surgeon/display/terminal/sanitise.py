"""Makes text of a model safe for a terminal.

Control characters, which can move the cursor or imitate output of surgeon, and marks that change the text direction are
escaped as in Python; very long words lose their middle.  JSON and files contain the full text.
"""

import re

LONGEST = 200
"""The most characters of a word; a longer one loses its middle."""
_HEAD, _TAIL = 120, 60
_ODD = re.compile(r"[^ -~]")
_LONG = re.compile(rf"\S{{{LONGEST + 1},}}")


def sanitise(text: str) -> str:
    """One line of text, safe for a terminal."""
    if len(text) > LONGEST:
        text = _LONG.sub(lambda found: _shortened(found[0]), text)
    return text if text.isascii() and text.isprintable() else _ODD.sub(_shown, text)


def _shortened(word: str) -> str:
    return f"{word[:_HEAD]}…{word[-_TAIL:]}"


def _shown(found: re.Match[str]) -> str:
    char = found[0]
    return char if char.isprintable() else ascii(char)[1:-1]
