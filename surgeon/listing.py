"""How a list is told that has no room: the first few, and how many more there are."""

from collections.abc import Sequence


def and_more(count: int, what: str = "") -> str:
    """The end of a list: " and 19 more"; empty where nothing is left out.  what: the things, " and 19 more nodes"."""
    return f" and {count:,} more{' ' if what else ''}{what}" if count > 0 else ""


def first_of(names: Sequence[str], most: int, count: int | None = None) -> str:
    """The first names, and how many more: "a, b and 19 more".  count: of all, where the names are not all of them."""
    shown = names[:most]
    return f"{', '.join(shown)}{and_more((len(names) if count is None else count) - len(shown))}"
