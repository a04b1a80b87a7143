"""The HTML views of results, by the type of the result."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from surgeon.display.html.elements import Markup, RenderContext

Body = Callable[[Any, RenderContext], Markup]
B = TypeVar("B", bound=Body)


@dataclass(frozen=True, slots=True)
class ResultView:
    """How results of a type are shown."""

    kind: str
    """The kind of the result in JSON."""
    body: Body
    """Renders a result as HTML."""
    title: Callable[[Any], str]
    """The title of a result's page."""
    data: Callable[[Any], Any]
    """The JSON value of a result."""


VIEWS: dict[type, ResultView] = {}


def _to_dict(result: Any) -> Any:
    return result.to_dict()


def register_view(
    kind: type, name: str, title: Callable[[Any], str], data: Callable[[Any], Any] = _to_dict
) -> Callable[[B], B]:
    """Register a function that renders results of a type.  name: the kind in JSON."""

    def register(body: B) -> B:
        VIEWS[kind] = ResultView(name, body, title, data)
        return body

    return register


def title_from_source(otherwise: str) -> Callable[[Any], str]:
    """A title from the file of a result.  otherwise: for a model in memory."""
    return lambda result: Path(result.source).name or otherwise


def view_of(result: object) -> ResultView | None:
    """The view of a result, None for an unknown type."""
    return next((VIEWS[kind] for kind in type(result).__mro__ if kind in VIEWS), None)
