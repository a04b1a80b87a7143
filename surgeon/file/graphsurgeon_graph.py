"""A gs.Graph as a kind of model."""

from collections.abc import Mapping
from typing import Any, cast

import onnx_graphsurgeon as gs
from onnx import ModelProto

from surgeon.errors import UsageError
from surgeon.file.external_data.held_tensors import HeldTensors
from surgeon.file.kinds import Kind


class GraphSurgeonKind(Kind):
    """A gs.Graph, which gs exports and imports."""

    title = "a gs.Graph"

    def takes(self, source: object) -> bool:
        """Whether it is a gs.Graph."""
        return isinstance(source, gs.Graph)

    def exported(self, source: Any) -> ModelProto:
        """The graph as gs exports it; the graph itself is unchanged.  Raises UsageError if gs cannot."""
        try:
            copied = source.copy()
            kinds = {name: tensor.type for name, tensor in source.tensors().items() if isinstance(tensor, gs.Variable)}
            for name, tensor in copied.tensors().items():
                if isinstance(tensor, gs.Variable):
                    tensor.type = kinds[name]  # a copy forgets the type of a sequence
            return cast(ModelProto, gs.export_onnx(copied, do_type_check=False))
        except (AttributeError, TypeError, ValueError) as error:
            raise UsageError(
                f"gs cannot export this graph ({error}). Give its outputs a dtype and a shape, or pass a path."
            ) from error

    def give(self, source: Any, made: ModelProto, held: Mapping[str, HeldTensors]) -> gs.Graph:
        """The result as gs imports it."""
        return gs.import_onnx(made)


KIND = GraphSurgeonKind()
