"""Nodes between Transposes, or between Reshapes, that cancel once these nodes read the tensors before them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from onnx import NodeProto, TensorProto, helper

from surgeon.connected_components import reachable
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.matching.pattern import Found, Search
from surgeon.shapes.algebra.size_expressions import product
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.op_rules.layout_laws import LAYOUT_OPS, Law, Layout, law_of, layout_of
from surgeon.shapes.tensor_types import NodeView

Array = np.ndarray[Any, np.dtype[Any]]

MOST = 32  # maximum number of nodes that change together


def _moved_layouts(index: Index, scope: Scope) -> Iterator[Found]:
    """Nodes that compute the same on the inputs of the Transposes before them, so that fewer Transposes are left.

    Or on the inputs of reshaping nodes, if later ones restore the shapes.  Binds `tensors`, what they read, and `body`,
    the nodes as a function of these.
    """
    for start in sorted(scope.nodes_of(LAYOUT_OPS), key=_slot):
        layout = layout_of(shapes_of(index).site(start)) if start.alive else None
        if layout is None:
            continue
        alone = _Group(index, scope, {}, {start.outputs[0]: layout})
        for reader in list(scope.readers(start.outputs[0])):
            group = alone.with_node(reader) if start.alive else None
            grown = None if group is None else _grown(group)
            if grown is not None and (grown.cost() or 0) < 0 and grown.is_closed():
                yield grown.found()


moved_layouts = Search(_moved_layouts, "no Transposes or Reshapes around nodes of other ops cancel", last=True)


def _grown(group: "_Group") -> "_Group | None":
    """The group with the neighbours that do not increase its cost."""
    waiting = list(group.neighbours())
    while waiting:
        wider = group.with_node(waiting.pop())
        costs = None if wider is None else wider.cost(), group.cost()
        if wider is not None and costs[0] is not None and (costs[1] is None or costs[0] <= costs[1]):
            group = wider
            waiting = list(group.neighbours())
    return group


class _Entry(NamedTuple):
    """How the nodes get the original of an input."""

    cost: int
    """The number of Transposes that this adds, or -1 if one goes."""
    tensor: str
    """The tensor that the nodes read, or that is transposed for them; "" for a constant."""
    array: Array | None = None
    """The original of a constant."""


class _Group:
    """Nodes of a scope that compute on the originals of tensors in other layouts."""

    def __init__(self, index: Index, scope: Scope, laws: dict[Node, Law], layouts: dict[str, Layout]) -> None:
        self.index, self.scope, self.laws, self.layouts = index, scope, laws, layouts
        self.inner = [node.outputs[0] for node in laws]

    def with_node(self, node: Node) -> "_Group | None":
        """The group with a further node; None if that node does not compute in the same layout."""
        near = [self.layouts[name] for name in (*node.inputs, *node.outputs) if name in self.layouts]
        if node in self.laws or len(self.laws) == MOST or node.scope is not self.scope or not near or not node.alive:
            return None
        law = law_of(shapes_of(self.index).site(node), near[0])
        if law is None:
            return None
        made = {node.inputs[slot]: near[0] for slot in law.slots} | {node.outputs[0]: law.behind}
        if any(self.layouts.get(name, layout) != layout for name, layout in made.items()):
            return None
        return _Group(self.index, self.scope, {**self.laws, node: law}, {**self.layouts, **made})

    def neighbours(self) -> Iterator[Node]:
        """The nodes that read or make its tensors."""
        for name in self.layouts:
            yield from self.scope.readers(name)
            if name in self.scope.producers:
                yield self.scope.producers[name]

    def cost(self) -> int | None:
        """By how many Transposes or Reshapes the graph grows; None if an input or output cannot change."""
        entries = [self.entry(name) for name in self.entering()]
        exits = [self.exit_cost(name) for name in self.inner]
        costs = [None if entry is None else entry.cost for entry in entries] + exits
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    def entering(self) -> list[str]:
        """The tensors from outside of which it reads the originals."""
        names = [node.inputs[slot] for node, law in self.laws.items() for slot in law.slots]
        return [name for name in dict.fromkeys(names) if name not in self.inner]

    def leaving(self, name: str) -> list[Node]:
        """The readers of a tensor outside."""
        return [node for node in self.scope.readers(name) if node not in self.laws]

    def entry(self, name: str) -> _Entry | None:
        """How it gets the original of a tensor from outside; None if it cannot."""
        layout, shape = self.layouts[name], shapes_of(self.index).shape(self.scope, name)
        maker = self.scope.producers.get(name)
        if maker is not None and layout_of(shapes_of(self.index).site(maker)) == layout:
            stays = self.leaving(name) or self.index.pin_reason(self.scope, name)
            return _Entry(0 if stays else -1, maker.inputs[0])
        if shape is None or product(shape) == 1:
            return None if shape is None else _Entry(0, name)
        constant = self.index.constants.get(self.scope, name)
        if layout.shape is not None or (constant is None and len(shape) != len(layout.perm)):
            return None
        if constant is None:
            return _Entry(1, name)
        sizes = (1,) * (len(layout.perm) - constant.array.ndim) + constant.array.shape
        return _Entry(0, "", np.ascontiguousarray(constant.array.reshape(sizes).transpose(np.argsort(layout.perm))))

    def undoes(self, node: Node, layout: Layout) -> bool:
        """Whether a node outside restores the original of a tensor in a layout."""
        if node.scope is not self.scope:
            return False
        if layout.shape is not None:
            is_reshape = traits_of(node.op).shape.is_reshape
            return is_reshape and shapes_of(self.index).shape(self.scope, node.outputs[0]) == layout.shape
        back = layout_of(shapes_of(self.index).site(node))
        return back is not None and back.shape is None and is_original(Layout(tuple(layout.perm[x] for x in back.perm)))

    def exit_cost(self, name: str) -> int | None:
        """The cost of its output: a Transpose for other readers, less those that cancel."""
        readers, layout = self.leaving(name), self.layouts[name]
        others = [node for node in readers if not self.undoes(node, layout)]
        is_read = bool(others) or self.index.pin_reason(self.scope, name) is not None
        if is_read and layout.shape is not None:
            return None
        return len(others) - len(readers) + (is_read and not is_original(layout))

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
            entry, perm = self.entry(name), self.layouts[name].perm
            if entry is not None and entry.array is not None:
                body.constants[f"original {name}"] = entry.array
            elif entry is not None and entry.cost > 0:
                back = [int(axis) for axis in np.argsort(perm)]
                body.nodes.append(helper.make_node("Transpose", [name], [f"original {name}"], perm=back))
            elif entry is not None:
                body.named[name] = entry.tensor
                if entry.tensor != name:
                    (removed if entry.cost else kept).append(self.scope.producers[name])
        for node in sorted(self.laws, key=_slot):
            body.add(shapes_of(self.index).site(node), self.laws[node])
        for name in self.inner:
            readers = self.leaving(name)
            undone = [node for node in readers if self.undoes(node, self.layouts[name])]
            body.outputs.update({node.outputs[0]: name for node in undone})
            removed += undone
            is_read = len(undone) < len(readers) or self.index.pin_reason(self.scope, name) is not None
            if is_read and is_original(self.layouts[name]):
                body.outputs[name] = name
            elif is_read:
                moved = helper.make_node("Transpose", [name], [f"moved {name}"], perm=self.layouts[name].perm)
                body.nodes.append(moved)
                body.outputs[name] = moved.output[0]
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
        for slot in law.slots:
            name = made.input[slot]
            made.input[slot] = self.named.get(name, name if name in self.made else f"original {name}")
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

    @property
    def made(self) -> set[str]:
        """The tensors that its nodes make."""
        return {name for node in self.nodes for name in node.output}

    def bound(self, scope: Scope) -> dict[str, Any]:
        """The captures: tensors, constants, and the function of both."""
        known = self.made | self.constants.keys()
        tensors = list(dict.fromkeys(name for node in self.nodes for name in node.input if name and name not in known))
        read, versions = [*tensors, *self.constants], [helper.make_opsetid(*item) for item in scope.versions.items()]
        outputs = list(self.outputs.values())
        body = helper.make_function(
            "", "body", inputs=read, outputs=outputs, nodes=self.nodes, opset_imports=versions
        )
        return {"tensors": VariadicBinding(tensors), "constants": ([*self.constants.values()],), "body": (body,)}


def is_original(layout: Layout) -> bool:
    """Whether the layout is that of the original."""
    return layout.shape is None and layout.perm == tuple(range(len(layout.perm)))


def _slot(node: Node) -> int:
    return node.slot
