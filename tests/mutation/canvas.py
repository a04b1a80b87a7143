"""What a replacement built for one match, open to a change before it is frozen: nodes, constants and results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from surgeon.rules.matching.match import Match
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.tensor_types import Shape


@dataclass(eq=False)
class Canvas:
    """A replacement on its graph.  results: the tensors that it returns, one for each output of the match."""

    graph: Any
    match: Match
    results: list[Any]

    @cached_property
    def nodes(self) -> list[gs.Node]:
        """The nodes that the results need, in order."""
        needed, kept = {id(item) for item in self.results}, []
        for node in reversed(self.graph.nodes):
            if any(id(tensor) in needed for tensor in node.outputs):
                kept.append(node)
                needed.update(id(tensor) for tensor in node.inputs)
        return kept[::-1]

    @cached_property
    def constants(self) -> list[gs.Constant]:
        """The constants that these nodes read or that are results, each once, in the order of their use."""
        found = [tensor for node in self.nodes for tensor in node.inputs] + self.results
        return list({id(item): item for item in found if isinstance(item, gs.Constant)}.values())

    @property
    def captures(self) -> list[Any]:
        """The tensors of the match that these nodes read or that are results, each once."""
        found = [tensor for node in self.nodes for tensor in node.inputs] + self.results
        return list({item.key: item for item in found if getattr(item, "key", None) is not None}.values())

    def dtype(self, tensor: Any) -> np.dtype[Any] | None:
        """The dtype of a tensor, None where it is unknown; what the match notes of being asked stays as it was."""
        noted = self.match.inspected, self.match.asked_dtype, self.match.asked_last
        found = tensor.dtype
        self.match.inspected, self.match.asked_dtype, self.match.asked_last = noted
        return None if found is None else np.dtype(found)

    def key(self, tensor: Any) -> str:
        """The name in the model of a captured tensor."""
        return self.match.tensor(tensor.key)

    def result_dtype(self, place: int) -> np.dtype[Any] | None:
        """The dtype of an output of the match."""
        found = shapes_of(self.match.index).dtype(self.match.scope, self.match.outputs[place])
        return None if found is None else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(found))

    def shape(self, name: str) -> Shape | None:
        """The shape of a tensor of the model."""
        return shapes_of(self.match.index).shape(self.match.scope, name)

    def readers(self, tensor: Any) -> list[tuple[gs.Node, int]]:
        """The nodes that read a tensor, and in which place."""
        return [(node, at) for node in self.nodes for at, other in enumerate(node.inputs) if other is tensor]

    def replace(self, old: Any, new: Any, beside: gs.Node | None = None) -> None:
        """Let all that reads a tensor, but for one node, read another; so do the results."""
        for node in self.nodes:
            if node is not beside:
                for at, other in enumerate(node.inputs):
                    if other is old:
                        node.inputs[at] = new
        self.results[:] = [new if item is old else item for item in self.results]

    @property
    def text(self) -> str:
        """The replacement in words: ops, how they are wired, attributes and constants; equal ones say the same."""
        names = {
            id(out): f"%{at}.{place}" for at, node in enumerate(self.nodes) for place, out in enumerate(node.outputs)
        }

        def tensor_text(tensor: Any) -> str:
            if id(tensor) in names:
                return names[id(tensor)]
            if isinstance(tensor, gs.Constant):
                values = np.asarray(tensor.values)
                return f"{values.dtype}{values.shape}{values.ravel()[:8].tolist()}"
            return str(getattr(tensor, "key", ""))

        parts = [
            f"{node.domain or ''}:{node.op}({', '.join(map(tensor_text, node.inputs))}) {_attributes(node)}"
            for node in self.nodes
        ]
        dtypes = [str(self.result_dtype(at)) for at in range(len(self.results))]
        return "; ".join([*parts, *map(tensor_text, self.results), *dtypes])


def _attributes(node: gs.Node) -> str:
    return ", ".join(f"{name}={value!r}"[:80] for name, value in sorted(node.attrs.items()))
