"""The kinds of models that people hold in memory: each opens its models, and returns results of the same kind.

Surgeon's own kinds are modules, by the package that they belong to; others have the entry point group `surgeon.kinds`,
with the name of that package.  A kind is looked for only if its package is imported, so no package costs anything.
"""

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from onnx import ModelProto

from surgeon.entry_points import KINDS, entry_points, loaded
from surgeon.errors import UsageError
from surgeon.file.external_data.held_tensors import HeldModel, HeldTensors

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OWN = {
    "onnx_graphsurgeon": "surgeon.file.graphsurgeon_graph",
    "onnx_ir": "surgeon.integrations.onnx_ir",
    "torch.onnx": "surgeon.integrations.torch",
    "transformers.exporters.base": "surgeon.integrations.transformers",
}
"""Modules with a `KIND`, by the module that a model's class comes from."""
TITLES = ("a ModelProto", "a gs.Graph", "an onnx_ir.Model", "a torch.onnx.ONNXProgram", "a transformers ExportedModel")
"""The names of surgeon's own kinds in messages."""


class Kind:
    """One way in which people hold a model in memory."""

    title: str = ""
    """The kind in messages, with its article."""

    def takes(self, source: object) -> bool:
        """Whether a value is a model of this kind."""
        raise NotImplementedError

    def exported(self, source: Any) -> ModelProto | HeldModel:
        """The model for surgeon, which does not change it.  Raises UsageError if it cannot be exported."""
        raise NotImplementedError

    def give(self, source: Any, made: ModelProto, held: Mapping[str, HeldTensors]) -> Any:
        """A result as this kind.  held: by location, the tensors of the result that stay with their owners."""
        raise NotImplementedError

    def parts(self, source: Any) -> Mapping[str, Any]:
        """The models of a container of several, by name; none for one model."""
        return {}

    def joined(self, source: Any, parts: Mapping[str, Any]) -> Any:
        """A container as the given one, with other models."""
        raise NotImplementedError


def kind_of(source: object) -> Kind | None:
    """The kind of a model in memory; None for other values."""
    return next((kind for kind in _kinds() if kind.takes(source)), None)


def titles() -> list[str]:
    """The names of the kinds in messages, with those of installed packages."""
    return [*TITLES, *(_loaded(point).title for point in entry_points(KINDS))]


def _kinds() -> Iterator[Kind]:
    """The kinds whose packages are imported."""
    for package, module in OWN.items():
        if package in sys.modules:
            found: Kind = import_module(module).KIND
            yield found
    for point in entry_points(KINDS):
        if point.name in sys.modules:
            yield _loaded(point)


def _loaded(point: "EntryPoint") -> Kind:
    """The kind of another package.  Raises UsageError if it cannot be loaded."""
    found = loaded(point, "kind of models")
    if not isinstance(found, Kind):
        raise UsageError(f"{point.value} is not a surgeon.file.kinds.Kind. Fix or remove its package.")
    return found
