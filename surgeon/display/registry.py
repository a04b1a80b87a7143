"""What is shown of a kind of result: one function each, found by the type."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from surgeon.display.html.elements import Markup, RenderContext

Body = Callable[[Any, RenderContext], Markup]
B = TypeVar("B", bound=Body)


@dataclass(frozen=True, slots=True)
class ResultView:
    """How results of a type are shown.

    kind: what JSON calls them.  body: what is shown.  title: of a page.  data: what JSON has of one.
    """

    kind: str
    body: Body
    title: Callable[[Any], str]
    data: Callable[[Any], Any]


SHOWN: dict[type, ResultView] = {}


def _to_dict(result: Any) -> Any:
    return result.to_dict()


def register_view(
    kind: type, name: str, title: Callable[[Any], str], data: Callable[[Any], Any] = _to_dict
) -> Callable[[B], B]:
    """Have a function show results of a type.  name: of the kind in JSON."""

    def note(body: B) -> B:
        SHOWN[kind] = ResultView(name, body, title, data)
        return body

    return note


def title_from_source(otherwise: str) -> Callable[[Any], str]:
    """A title: the name of the file that a result is of.  otherwise: for a model in memory."""
    return lambda result: Path(result.source).name or otherwise


def shown(result: object) -> ResultView | None:
    """How a result is shown, None where nobody knows."""
    return next((SHOWN[kind] for kind in type(result).__mro__ if kind in SHOWN), None)
