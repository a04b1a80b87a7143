"""Types of options: targets, sizes, opsets, variables, bytes and numbers."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from surgeon.target_registry import OWN, names, target_of
from surgeon.text import parse_bytes

Sizes = tuple[int, int, int]
"""The minimum, optimum and maximum of a dimension."""

if TYPE_CHECKING:
    Names = click.Choice[str]
    ParamType = click.ParamType[Any]
else:
    Names, ParamType = click.Choice, click.ParamType  # not generic before click 8.2 and 8.4


class TargetName(Names):
    """The name of an installed target.  among: returns the valid names."""

    def __init__(self, among: Callable[[], Sequence[str]] = names) -> None:
        self._among = among
        self.case_sensitive = True

    @property
    def choices(self) -> Sequence[str]:  # type: ignore[override]  # click's is a plain attribute
        """The valid names."""
        return tuple(self._among())

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The given name; click's own error for an unknown target.

        Raises UsageError for a target that cannot be loaded.
        """
        if self._among is names and value in OWN:
            return str(value)
        if value not in OWN and value in names():
            target_of(value)
        return str(super().convert(value, param, ctx))


class ParsedType(ParamType):
    """A type of options whose text a function parses; it raises ValueError with a sentence for invalid text."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of a text; defaults are values already."""
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _named_number(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    if not name or not number.strip().isdecimal():
        raise ValueError(f"expected NAME=N with an integer N >= 0 (for example batch=4), got {text!r}")
    return name.strip(), int(number)


def _shape(text: str) -> dict[str, int]:
    """NAME=N pairs with commas between them; a comma in a name stays."""
    pairs = re.findall(r"([^=]+=\s*\d+\s*)(?:,(?=.)|$)", text)
    if ",".join(pairs) != text:
        raise ValueError(f"expected NAME=N,NAME=N,... with integers (for example batch=1,sequence=128), got {text!r}")
    return dict(map(_named_number, pairs))


def _named_sizes(text: str) -> tuple[str, int | Sizes]:
    name, _, sizes = text.rpartition("=")
    numbers = [part.strip() for part in sizes.split(":")]
    if not name or len(numbers) not in (1, 3) or not all(part.isdecimal() for part in numbers):
        raise ValueError(f"expected NAME=N or NAME=MIN:OPT:MAX with integers (for example batch=1:4:8), got {text!r}")
    found = list(map(int, numbers))
    return name.strip(), found[0] if len(found) == 1 else (found[0], found[1], found[2])


def _opset(text: str) -> int | str:
    if text in ("auto", "none"):
        return text
    if not text.isdecimal():
        raise ValueError(f"expected auto, none or an opset (for example 21), got {text!r}")
    return int(text)


def _variable(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise ValueError(f"expected NAME=VALUE, got {text!r}")
    for kind in (int, float):
        try:
            return name.strip(), kind(value)
        except ValueError:
            continue
    return name.strip(), value


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"expected numbers such as 0.485,0.456,0.406, got {text!r}") from None


NAMED_NUMBER = ParsedType("NAME=N", _named_number)
NAMED_SIZES = ParsedType("NAME=N[:N:N]", _named_sizes)
SHAPE = ParsedType("NAME=N,...", _shape)
OPSET = ParsedType("auto|N", _opset)
VARIABLE = ParsedType("NAME=VALUE", _variable)
NUMBERS = ParsedType("A,B,C", _numbers)
BYTES = ParsedType("SIZE", parse_bytes)
