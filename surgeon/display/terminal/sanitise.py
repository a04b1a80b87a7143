"""Names are data: what a model says is shown on a screen, and does nothing to it.

Control characters, which move the cursor or pass for a line of ours, and marks that turn the direction of writing, are
shown as Python writes them; what no line has room for loses its middle.  JSON and files have all of it.
"""

import re

LONGEST = 200
"""Characters of a word, such as a name, beyond which its middle goes."""
_HEAD, _TAIL = 120, 60
_ODD = re.compile(r"[^ -~]")
_LONG = re.compile(rf"\S{{{LONGEST + 1},}}")


def sanitise(text: str) -> str:
    """One line of text as a screen may show it."""
    if len(text) > LONGEST:
        text = _LONG.sub(lambda found: _shortened(found[0]), text)
    return text if text.isascii() and text.isprintable() else _ODD.sub(_shown, text)


def _shortened(word: str) -> str:
    return f"{word[:_HEAD]}…{word[-_TAIL:]}"


def _shown(found: re.Match[str]) -> str:
    char = found[0]
    return char if char.isprintable() else ascii(char)[1:-1]
