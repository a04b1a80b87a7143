"""The viewer as an anywidget in a notebook; the kernel answers it."""

from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any
from uuid import uuid4

import anywidget
import traitlets
from IPython.display import publish_display_data

from surgeon.display.blocks import Figure
from surgeon.display.html.elements import Markup, element
from surgeon.display.html.html_renderer import HtmlRenderer
from surgeon.display.viewer.highlights import marks_of, view_marks
from surgeon.display.viewer.session import ViewerSession
from surgeon.display.viewer.static_view import static_picture
from surgeon.edits.selection import Selection, make_selection
from surgeon.errors import UsageError
from surgeon.file.model_like import ModelLike
from surgeon.targets.inspection.model_summary import inspect

BUNDLE = resources.files(__package__).joinpath("view.js")
_show: Callable[..., None] = publish_display_data


class View(anywidget.AnyWidget):
    """A view of a model, to explore and to select from; `surgeon.view` returns it."""

    _esm = BUNDLE.read_text(encoding="utf-8")
    height = traitlets.Int(560).tag(sync=True)
    marks = traitlets.Dict().tag(sync=True)
    picked = traitlets.Dict().tag(sync=True)
    still = traitlets.Unicode().tag(sync=True)  # the class of the element that the script hides

    def __init__(self, source: ModelLike, target: str, height: int) -> None:
        self._source, self._content = source, ViewerSession(source, target)
        super().__init__(height=height, still=f"surgeon-still-{uuid4().hex}")
        self.on_msg(self._on_request)

    def _on_request(self, _: object, message: dict[str, Any], __: object) -> None:
        """Answer a request of the page."""
        response = self._content.respond(str(message.get("kind")), message.get("given") or {})
        self.send({"id": message.get("id"), **response})

    @property
    def selection(self) -> Selection:
        """The selected nodes, and the two cuts around them."""
        label = str(self.picked.get("scope", ""))
        scope = self._content.scope(label)
        places = [place for place in self.picked.get("nodes", ()) if 0 <= place < len(scope.nodes)]
        nodes = [scope.nodes[place] for place in places]
        return make_selection(scope, nodes, self.picked.get("froms", ()), self.picked.get("tos", ()))

    def select(self, names: Sequence[str], scope: str = "") -> None:
        """Select nodes by their names, or by the names of their outputs.  Raises UsageError for an unknown name."""
        home = self._content.scope(scope)
        known = {name: node for node in home.nodes for name in (*node.outputs, node.label) if name}
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            raise UsageError(f"No node and no tensor is named {unknown!r}: give names that the model has.")
        places = sorted({known[name].slot for name in names})
        self.picked = {"scope": scope, "nodes": places, "froms": [], "tos": []}

    def show(self, *results: object) -> None:
        """Colour the nodes of results: a report, sites, matches, misses, or names; without results, remove the colours.

        Raises UsageError for a result without nodes.
        """
        found = view_marks(self._content.index.scopes, marks_of(results))
        self.marks = {"marks": found}

    def __repr__(self) -> str:
        return f"<View of {self._content.title}>"

    def _ipython_display_(self) -> None:
        """Show the widget and, as a second output for viewers without a kernel, a picture, which the page hides."""
        bundle = self._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        _show(data, metadata)
        graph = self._content.graph(self._content.scope())
        picture = HtmlRenderer().block(Figure(lambda: static_picture(graph), self._content.title))
        shown = element("div", (picture, Markup(inspect(self._source)._repr_html_())), class_=self.still)
        _show({"text/html": str(shown), "text/plain": f"picture of {self._content.title}"})
