"""Text for messages: counts, shortened lists, close matches of a name, durations, and numbers with their limits."""

import re
from collections.abc import Iterable, Sequence

_MAX_DIGITS = 17  # digits that distinguish all doubles
_UNITS = "", "k", "m", "g", "t"  # of bytes, each 1000 of the one before, or with an "i" 1024
_NEAREST, _SHORTEST = 3, 3  # suggested names; minimum length of a name to search inside others


def format_count(count: int, what: str) -> str:
    """A count with a noun: "1 node", "1,200 nodes"."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def parse_bytes(text: str) -> int:
    """The bytes of a size such as 500MB or 4GiB.  Raises ValueError for other text."""
    found = re.fullmatch(rf"([0-9]+(?:\.[0-9]+)?)\s*([{''.join(_UNITS)}]?)(i?)b?", text.strip().lower())
    if found is None:
        raise ValueError(f"invalid size {text!r}; examples: 500MB, 4GB, 4GiB")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** _UNITS.index(found[2]))


def and_more(count: int, what: str = "") -> str:
    """The end of a list: " and 19 more"; empty for zero.  what: the noun, as in " and 19 more nodes"."""
    return f" and {count:,} more{' ' if what else ''}{what}" if count > 0 else ""


def join_first(names: Sequence[str], most: int, count: int | None = None) -> str:
    """The first names, and the number of others: "a, b and 19 more".  count: of all, if names are not complete."""
    shown = names[:most]
    return f"{', '.join(shown)}{and_more((len(names) if count is None else count) - len(shown))}"


def join_all(names: Sequence[str], word: str = "and") -> str:
    """All names, with a word before the last one: "a, b or c"."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def close_matches(name: str, known: Iterable[str], most: int = _NEAREST, cutoff: float = 0.6) -> list[str]:
    """The names most similar to one: those that differ only in case or dashes, else those with the closest spelling,
    else those that contain it.

    cutoff: minimum similarity, up to 1.  `*` and `?` in the name are ignored, since it may be a pattern.
    """
    from difflib import get_close_matches  # not at the top: only errors need it

    wanted, folded = _folded(name).strip("*?"), {one: _folded(one) for one in known}
    same = [one for one, text in folded.items() if text == wanted]
    if same:
        return same[:most]
    spelled: dict[str, str] = {}
    for one, text in folded.items():
        spelled.setdefault(text, one)
    near = [spelled[text] for text in get_close_matches(wanted, spelled, most, cutoff)]
    return near or [one for one, text in folded.items() if wanted in text and len(wanted) >= _SHORTEST][:most]


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: similar names, else the first known ones."""
    names = list(dict.fromkeys(known))
    if near := close_matches(name, names):
        return f"did you mean {join_all([*map(repr, near)], 'or')}?"
    return f"there are {join_first(names, _NEAREST)}." if names else "there is none."


def suggest_name(error: BaseException) -> str:
    """The suggestion that Python prints after the message of an unknown name or attribute: ". Did you mean 'beta'?"."""
    if not isinstance(error, NameError | AttributeError):
        return ""
    from traceback import walk_tb  # not at the top: only errors need it

    *_, (frame, _) = walk_tb(error.__traceback__)
    names = (
        dir(error.obj) if isinstance(error, AttributeError) else [*frame.f_locals, *frame.f_globals, *frame.f_builtins]
    )
    return "".join(f". Did you mean {name!r}?" for name in close_matches(error.name or "", names, 1, 0.7))


def seconds_text(value: float) -> str:
    """A duration in seconds, with a readable precision."""
    return f"{value:.2f} s" if value < 100 else f"{value:.0f} s"


def runs_text(runs: int, oracle: str) -> str:
    """The inputs and oracle of a comparison: "3 sets of inputs under ONNX Runtime"."""
    return f"{format_count(runs, 'set')} of inputs under {oracle}"


def of_the_limit(part: float) -> str:
    """An error as a part of its limit: "0.27 of the limit"; above 1 it never reads as 1."""
    return f"{format_beside_limit(part, 1.0, (2, 2))[0]} of the limit"


def format_beside_limit(found: float, allowed: float, digits: tuple[int, int] = (3, 3)) -> tuple[str, str]:
    """A number and its limit, with as many digits as needed to show which is larger.

    0.000643 with a limit of 0.00064 would look like a failure even if both are 0.000643 up to the seventh digit.
    """
    for more in range(_MAX_DIGITS):
        texts = tuple(f"{number:.{count + more}g}" for number, count in zip((found, allowed), digits, strict=True))
        if (float(texts[0]) <= float(texts[1])) == (found <= allowed):
            break
    return texts[0], texts[1]
