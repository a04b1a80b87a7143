"""Nodes between Transposes, or between Reshapes, that cancel if the nodes read the tensors before them."""

from collections.abc import Iterator
from math import inf
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from surgeon.connected_components import reachable
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.matching.pattern import Found, Search
from surgeon.rules.searches.expanded_operands import body_of
from surgeon.shapes.algebra.size_expressions import product
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.op_rules.layout_laws import LAYOUT_OPS, Law, Layout, law_of, layout_of
from surgeon.shapes.tensor_types import NodeView

MOST = 32  # maximum number of nodes that change together
Array = np.ndarray[Any, np.dtype[Any]]


def _moved_layouts(index: Index, scope: Scope) -> Iterator[Found]:
    """Nodes that compute the same on the inputs of the Transposes before them, so that fewer Transposes are left.

    Or on the inputs of reshaping nodes, if later ones restore the shapes.  Binds the `tensors` and `constants` that the
    nodes read then, and `body`, the nodes as a function of both.
    """
    for start in sorted(scope.nodes_of(LAYOUT_OPS), key=_slot):
        layout = layout_of(shapes_of(index).site(start)) if start.alive else None
        alone = None if layout is None else _Group(index, scope, {}, {start.outputs[0]: layout})
        for reader in list(scope.readers(start.outputs[0])) if alone is not None else ():
            group = alone.with_node(reader) if alone is not None and start.alive else None
            waiting = [] if group is None else list(group.neighbours())
            while group is not None and waiting:
                wider = group.with_node(waiting.pop())
                if wider is not None and wider.cost() <= group.cost():
                    group, waiting = wider, list(wider.neighbours())
            if group is not None and group.cost() < 0 and group.is_closed():
                yield group.found()


moved_layouts = Search(_moved_layouts, "no Transposes or Reshapes around nodes of other ops cancel", last=True)


class _Group:
    """Nodes of a scope that can compute on the originals of tensors in other layouts."""

    def __init__(self, index: Index, scope: Scope, laws: dict[Node, Law], layouts: dict[str, Layout]) -> None:
        self.index, self.scope, self.laws, self.layouts = index, scope, laws, layouts
        self.inner = {node.outputs[0]: None for node in laws}
        self.shapes = shapes_of(index)

    def with_node(self, node: Node) -> "_Group | None":
        """The group with a further node; None if that node does not compute in the same layout."""
        near = [self.layouts[name] for name in (*node.inputs, *node.outputs) if name in self.layouts]
        if node in self.laws or len(self.laws) == MOST or node.scope is not self.scope or not near or not node.alive:
            return None
        law = law_of(self.shapes.site(node), near[0])
        made = {} if law is None else {node.inputs[slot]: near[0] for slot in law.slots} | {node.outputs[0]: law.behind}
        if law is None or any(self.layouts.get(name, layout) != layout for name, layout in made.items()):
            return None
        return _Group(self.index, self.scope, {**self.laws, node: law}, {**self.layouts, **made})

    def neighbours(self) -> Iterator[Node]:
        """The nodes that read or make its tensors."""
        for name in self.layouts:
            yield from self.scope.readers(name)
            if name in self.scope.producers:
                yield self.scope.producers[name]

    def cost(self) -> float:
        """By how many Transposes or Reshapes the graph grows; infinite if an input or output cannot change."""
        for node, law in self.laws.items():
            if any(name in self.inner for slot, name in enumerate(node.inputs) if slot not in law.slots):
                return inf
        return sum(map(self.cost_before, self.entering())) + sum(map(self.cost_behind, self.inner))

    def entering(self) -> list[str]:
        """The tensors from outside of which it reads the originals."""
        names = [node.inputs[slot] for node, law in self.laws.items() for slot in law.slots]
        return [name for name in dict.fromkeys(names) if name not in self.inner]

    def others(self, name: str) -> list[Node]:
        """The readers of a tensor outside of the group."""
        return [node for node in self.scope.readers(name) if node not in self.laws]

    def original(self, name: str) -> str | Array | None:
        """The original of a tensor from outside: a tensor, or the value of a constant; None if none is known."""
        layout, shape, maker = self.layouts[name], self.shapes.shape(self.scope, name), self.scope.producers.get(name)
        if maker is not None and layout_of(self.shapes.site(maker)) == layout:
            return maker.inputs[0]
        if shape is not None and product(shape) == 1:
            return name
        constant = self.index.constants.get(self.scope, name)
        if constant is None or layout.shape is not None:
            return None
        sizes = (1,) * (len(layout.perm) - constant.array.ndim) + constant.array.shape
        return np.ascontiguousarray(constant.array.reshape(sizes).transpose(np.argsort(layout.perm)))

    def cost_before(self, name: str) -> float:
        """The cost of an input: a Transpose that is needed for it, less one that goes."""
        found, shape = self.original(name), self.shapes.shape(self.scope, name)
        if found is None:
            layout = self.layouts[name]
            return 1 if layout.shape is None and shape is not None and len(shape) == len(layout.perm) else inf
        goes = not self.others(name) and self.index.pin_reason(self.scope, name) is None
        return -1 if isinstance(found, str) and found != name and goes else 0

    def behind(self, name: str) -> tuple[list[Node], bool]:
        """The nodes after an output that restore its original, and whether others read the output."""
        layout, undone = self.layouts[name], list[Node]()
        for node in self.others(name):
            back = layout_of(self.shapes.site(node)) if node.scope is self.scope else None
            if back is not None and (back.shape is None) == (layout.shape is None):
                made = self.shapes.shape(self.scope, node.outputs[0])
                undoes = _is_original(Layout(tuple(layout.perm[axis] for axis in back.perm)))
                undone += [node] if (undoes if layout.shape is None else made == layout.shape) else []
        is_read = len(undone) < len(self.others(name)) or self.index.pin_reason(self.scope, name) is not None
        return undone, is_read

    def cost_behind(self, name: str) -> float:
        """The cost of an output: a Transpose for other readers, less those that cancel."""
        undone, is_read = self.behind(name)
        if is_read and self.layouts[name].shape is not None:
            return inf
        return (is_read and not _is_original(self.layouts[name])) - len(undone)

    def is_closed(self) -> bool:
        """Whether no tensor that it reads depends on its own outputs through other nodes."""
        first = min(node.slot for node in self.laws)

        def before(node: Node) -> Iterator[Node]:
            makers = (self.scope.producers.get(name) for name in node.inputs)
            return (maker for maker in makers if maker is not None and maker.slot >= first)

        outside = [maker for node in self.laws for maker in before(node) if maker not in self.laws]
        return self.laws.keys().isdisjoint(reachable(outside, before))

    def found(self) -> Found:
        """The group as a site."""
        removed, kept, body = list(self.laws), list[Node](), _Body()
        for name in self.entering():
            original = self.original(name)
            if original is None:
                back = [int(axis) for axis in np.argsort(self.layouts[name].perm)]
                body.nodes.append(helper.make_node("Transpose", [name], [f"original {name}"], perm=back))
            elif not isinstance(original, str):
                body.constants[f"original {name}"] = original
            elif original != name:
                (removed if self.cost_before(name) else kept).append(self.scope.producers[name])
            body.named[name] = original if isinstance(original, str) else f"original {name}"
        for node in sorted(self.laws, key=_slot):
            body.add(self.shapes.site(node), self.laws[node])
        for name in self.inner:
            undone, is_read = self.behind(name)
            removed += undone
            body.outputs.update({node.outputs[0]: name for node in undone})
            if is_read:
                body.outputs[name] = name
                if not _is_original(self.layouts[name]):
                    body.outputs[name] = f"moved {name}"
                    perm = self.layouts[name].perm
                    body.nodes.append(helper.make_node("Transpose", [name], [f"moved {name}"], perm=perm))
        removed, kept = (sorted(dict.fromkeys(nodes), key=_slot) for nodes in (removed, kept))
        return Found(tuple(removed), tuple(body.outputs), body.bound(self.scope), tuple(kept))


class _Body:
    """The nodes of a group on the originals, as a function."""

    def __init__(self) -> None:
        self.nodes, self.constants = list[NodeProto](), dict[str, Array]()
        self.named, self.outputs = dict[str, str](), dict[str, str]()

    def add(self, view: NodeView, law: Law) -> None:
        """Add a node that reads the originals, along their axes."""
        made, source = NodeProto(), traits_of(view.op).shape.axes
        made.CopyFrom(view.node.proto)
        made.input[:] = view.node.inputs  # earlier rules may have redirected them
        for slot in law.slots:
            made.input[slot] = self.named.get(made.input[slot], made.input[slot])
        self.nodes.append(made)
        if law.axes is None:
            return
        if source is not None and view.opset >= source.since:
            name = f"axes {made.output[0]}"
            dtype = np.int32 if source.in_order and view.dtype(1) == TensorProto.INT32 else np.int64
            self.constants[name] = np.array(law.axes, dtype).reshape(() if view.shape(source.slot) == () else (-1,))
            made.input.extend([""] * (source.slot + 1 - len(made.input)))
            made.input[source.slot] = name
            return
        key, value = ("axis", law.axes[0]) if source is None else ("axes", law.axes)
        others = [item for item in made.attribute if item.name != key]
        del made.attribute[:]
        made.attribute.extend([*others, helper.make_attribute(key, value)])

    def bound(self, scope: Scope) -> dict[str, Any]:
        """The captures: tensors, constants, and the function of both."""
        known = {name for node in self.nodes for name in node.output} | self.constants.keys()
        tensors = list(dict.fromkeys(name for node in self.nodes for name in node.input if name and name not in known))
        body = body_of(scope, self.nodes, [*tensors, *self.constants], list(self.outputs.values()))
        return {"tensors": VariadicBinding(tensors), "constants": ([*self.constants.values()],), "body": (body,)}


def _is_original(layout: Layout) -> bool:
    """Whether a layout is that of the original."""
    return layout.shape is None and layout.perm == tuple(range(len(layout.perm)))


def _slot(node: Node) -> int:
    return node.slot
