"""Whether what a document shows is what comes out: word for word, but for the digits in which machines differ.

Figures of rounding (how far two results of the same formula lie apart) hang on the order in which a processor adds up:
they agree within a factor of ten, and wherever in the tensor, or at whichever site, they are found.  Any other number
with a point or an exponent agrees up to one unit in the last digit that both show.  Durations always agree.  All else
agrees exactly: names, outcomes, counts.  A document may show lines as a terminal wraps them, their further lines behind
the column of labels.
"""

import math
import re
from collections.abc import Callable, Iterator
from itertools import zip_longest

from surgeon.display.terminal.terminal_renderer import LABEL

NUMBER = r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=e))(?:e[-+]?\d+)?"
FIGURE = r"\d+(?:\.\d+)?(?:e[-+]?\d+)?"
ERRORS = re.compile(
    rf"(?P<first>{FIGURE}) absolute, (?P<second>{FIGURE}) relative(?:, (?P<third>{FIGURE}) ULP)?"
    rf"|off by at most (?P<off>{FIGURE})(?: at \[[\d, ]+\])? \((?P<part>{FIGURE}) relative\)"
    rf"|differs by (?P<by>{FIGURE})(?= \()"
    rf"|(?P<limit>{FIGURE}) of the limit(?: \([^()]+ at [^()]+\))?"
)
NUMBERS = re.compile(rf"(?<![\w.])({NUMBER})(?![\w]|\.\w)")
DURATION = re.compile(r"\b\d+\.\d s(?=[;)])")
ROUNDING = 1e-4  # an absolute error from which on it is one of formulas, not of rounding
FACTOR = 10.0
SINGLE = 1e-5  # relative: numbers of single precision that are nearer than this are the same, 0.1 and 0.10000001 too

Part = str | tuple[bool, str]
"""Words, or a number and whether it is a figure of rounding."""


def differences(shown: str, printed: str) -> list[str]:
    """What differs, as pairs of lines; empty where nothing does."""
    both = zip_longest(_unwrapped(shown), _unwrapped(printed), fillvalue="")
    return [f"- {one.rstrip()}\n+ {two.rstrip()}" for one, two in both if not agree(one, two)]


def missing(shown: str, printed: str) -> list[str]:
    """The lines that are shown and that are not among those printed."""
    lines = [*printed.splitlines(), *_unwrapped(printed)]
    return [line for line in _unwrapped(shown) if line.strip() and not any(agree(line, other) for other in lines)]


def _unwrapped(text: str) -> list[str]:
    """The lines of a text, each with those that begin in the column behind the labels of a summary."""
    found: list[str] = []
    for line in text.splitlines():
        if found and re.match(rf" {{{LABEL}}}\S", line):
            found[-1] = f"{found[-1].rstrip()} {line.strip()}"
        else:
            found.append(line)
    return found


def agree(shown: str, printed: str) -> bool:
    """Whether two lines say the same."""
    one, two = list(_parts(shown)), list(_parts(printed))
    return len(one) == len(two) and all(map(_same, one, two))


def _parts(line: str) -> Iterator[Part]:
    """A line cut at its numbers."""
    line, end = DURATION.sub("N s", line), 0
    for found in ERRORS.finditer(line):
        yield from _numbers(line[end : found.start()])
        figures = [figure for figure in found.groups() if figure is not None]
        end = found.end()
        if found["limit"] is None and float(figures[0]) >= ROUNDING:
            yield from _numbers(found.group())
        else:
            yield re.sub(rf" at \[[\d, ]+\]| \([^()]+ at [^()]+\)|{FIGURE}", "", found.group())
            yield from ((True, figure) for figure in figures)
    yield from _numbers(line[end:])


def _numbers(text: str) -> Iterator[Part]:
    """Words and numbers in turn; any run of spaces is one, as numbers are padded."""
    for place, part in enumerate(NUMBERS.split(text)):
        yield (False, part) if place % 2 else " ".join(part.split())


def _same(one: Part, two: Part) -> bool:
    if isinstance(one, str) or isinstance(two, str):
        return one == two
    close: Callable[[str, str], bool] = _of_one_order if one[0] else _up_to_the_last_digit
    return one[0] == two[0] and close(one[1], two[1])


def _of_one_order(one: str, two: str) -> bool:
    least, most = sorted((float(one), float(two)))
    return most <= FACTOR * least


def _up_to_the_last_digit(one: str, two: str) -> bool:
    return math.isclose(float(one), float(two), rel_tol=SINGLE, abs_tol=1.01 * min(_unit(one), _unit(two)))


def _unit(number: str) -> float:
    """What one is worth in the last digit: 0.01 of 3.25, 1e-8 of 7.15e-06."""
    digits, _, exponent = number.partition("e")
    return float(10.0 ** (int(exponent or 0) - len(digits.partition(".")[2])))
