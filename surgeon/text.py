"""Text for people: counts, the first of a list, close matches of a name, durations, and numbers beside a limit."""

import os
from collections.abc import Iterable, Sequence

_MAX_DIGITS = 17  # digits that tell all doubles apart
_NEAREST, _SHORTEST = 3, 3  # names to suggest; letters that a name has to have to be looked for inside others


def format_count(count: int, what: str) -> str:
    """So many of something: "1 node", "1,200 nodes"."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def and_more(count: int, what: str = "") -> str:
    """The end of a list: " and 19 more"; empty where nothing is left out.  what: the things, " and 19 more nodes"."""
    return f" and {count:,} more{' ' if what else ''}{what}" if count > 0 else ""


def join_first(names: Sequence[str], most: int, count: int | None = None) -> str:
    """The first names, and how many more: "a, b and 19 more".  count: of all, where the names are not all of them."""
    shown = names[:most]
    return f"{', '.join(shown)}{and_more((len(names) if count is None else count) - len(shown))}"


def close_matches(name: str, known: Iterable[str], most: int = _NEAREST, cutoff: float = 0.6) -> list[str]:
    """The few names that look most like one: those that differ in case or dashes only, else the closest in spelling,
    else those that contain it.

    cutoff: how alike they must be, of 1.  `*` and `?` in the name do not count: it may be a pattern.
    """
    from difflib import get_close_matches  # not at the top: most runs refuse nothing

    wanted, folded = _folded(name).strip("*?"), {one: _folded(one) for one in known}
    same = [one for one, text in folded.items() if text == wanted]
    if same:
        return same[:most]
    spelled: dict[str, str] = {}
    for one, text in folded.items():
        spelled.setdefault(text, one)
    near = [spelled[text] for text in get_close_matches(wanted, spelled, most, cutoff)]
    if near or len(wanted) < _SHORTEST:
        return near
    return [one for one, text in folded.items() if wanted in text][:most]


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What a refusal of a name ends in: those that look like it, else the first that there are."""
    names = list(dict.fromkeys(known))
    near = close_matches(name, names)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"there are {join_first(names, _NEAREST)}." if names else "there is none."


def short_names(names: list[str]) -> list[str]:
    """The names of files without what is the same of all their folders."""
    folders = {os.path.dirname(name) for name in names}
    return [os.path.basename(name) for name in names] if len(folders) == 1 else names


def milliseconds_text(milliseconds: float) -> str:
    """As many digits as a latency is worth: four."""
    places = 3 if milliseconds < 10 else 2 if milliseconds < 100 else 1
    return f"{milliseconds:.{places}f}"


def seconds_text(value: float) -> str:
    """A duration in seconds, as precise as it is worth reading."""
    return f"{value:.2f} s" if value < 100 else f"{value:.0f} s"


def runs_text(runs: int, oracle: str) -> str:
    """On what models were compared: "3 sets of inputs under ONNX Runtime"."""
    return f"{format_count(runs, 'set')} of inputs under {oracle}"


def format_beside_limit(found: float, allowed: float, digits: tuple[int, int] = (3, 3)) -> tuple[str, str]:
    """What was found and what is allowed, in so many digits, or in as many more as say truly whether that is kept.

    0.000643 beside an allowed 0.00064 reads like a failure where both are 0.000643 but for the seventh digit.
    """
    for more in range(_MAX_DIGITS):
        texts = tuple(f"{number:.{count + more}g}" for number, count in zip((found, allowed), digits, strict=True))
        if (float(texts[0]) <= float(texts[1])) == (found <= allowed):
            break
    return texts[0], texts[1]
