"""What makes two regions equal: structure, constants, dtypes and shapes.  Equal regions are proved once."""

from collections.abc import Hashable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from onnx import AttributeProto

from surgeon.indexing.origin import Origin
from surgeon.indexing.scope import Node, Scope, split_op
from surgeon.matching.state import TRANSPARENT
from surgeon.ops.schemas import schema
from surgeon.prove.cut import EXACT, INTEGERS, SMALL, CannotCut, Cut, Leaf
from surgeon.prove.region import Region
from surgeon.shaping.shapes import Shapes
from surgeon.shaping.symbols import Size, SizeError, substitute, symbol, symbols

Signature = tuple[Hashable, ...]


class Signatures:
    """Signatures of the regions of one model; 20,000 of them must cost less than finding the regions did."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._owners: dict[int, set[Node | None]] = {}
        self._plain: dict[tuple[int, str], bool] = {}
        self._versions: dict[int, tuple[tuple[str, int], ...]] = {}
        self._constants: dict[tuple[int, str], Hashable] = {}

    def of(self, region: Region, shapes: Shapes) -> Signature:
        """The signature of a region, whose inputs have the dtypes and shapes that `shapes` tells."""
        scope, numbers = region.scope, dict[str, int]()
        source = self._origin.scope(scope)
        before = self._side(region.before, shapes, numbers, changed=bool(scope.redirected))
        made = len(numbers)
        inner = {name for node in region.before for name in node.outputs}
        outputs = tuple([numbers.get(old, -1) for old, _ in region.outputs])
        fresh = {name for node in region.after for name in node.outputs}
        renamed = {name: number for name, number in numbers.items() if name not in fresh}
        after = self._side(region.after, shapes, renamed, changed=False)
        given = tuple([renamed.setdefault(new, len(renamed)) for _, new in region.outputs])
        outside = [name for name in dict.fromkeys((*numbers, *renamed)) if name not in inner and name not in fresh]
        unknown: dict[str, Size] = {}
        facts = tuple([self._input(source, scope, name, shapes, unknown) for name in outside])
        above = self._above(region, outside, shapes, unknown) if self._goes_back(region, outside, shapes) else None
        if id(scope.versions) not in self._versions:
            self._versions[id(scope.versions)] = tuple(sorted(scope.versions.items()))
        versions = self._versions[id(scope.versions)]
        return (versions, before, after, outputs, given, facts, above, made, region.slack)

    def _side(self, nodes: Sequence[Node], shapes: Shapes, numbers: dict[str, int], changed: bool) -> Hashable:
        """Ops, attributes and wiring of the nodes; tensors are numbered as they come."""
        number, origin = numbers.setdefault, self._origin
        found: list[Hashable] = []
        for node in nodes:
            inputs = origin.inputs(node) if changed else node.inputs
            reads = tuple([number(name, len(numbers)) if name else -1 for name in inputs])
            makes = tuple([number(name, len(numbers)) if name else -1 for name in node.outputs])
            found.append((node.op, reads, makes, None if self._has_none(node) else _attributes(node, shapes)))
        return tuple(found)

    def _has_none(self, node: Node) -> bool:
        """Whether the schema gives the op no attributes."""
        key = (id(node.scope.versions), node.op)
        if key not in self._plain:
            domain, op = split_op(node.op)
            known = schema(domain, op, node.scope.versions.get(domain))
            self._plain[key] = known is not None and not known.attributes
        return self._plain[key]

    def _input(self, source: Scope, scope: Scope, name: str, shapes: Shapes, unknown: dict[str, Size]) -> Hashable:
        """A tensor from outside the region: a constant by value, a large weight or any other by dtype and shape."""
        constant = self._known(source, scope, name)
        if constant is not None:
            return constant
        facts = shapes.facts(source, name)
        if facts.shape is None:
            return (*facts, id(source.home(name)), name)
        shape = tuple([_renamed(size, unknown) for size in facts.shape])
        value = shapes.value(source, name) if facts.dtype in INTEGERS else None
        if value is not None:
            return (facts.dtype, shape, tuple([_renamed(x, unknown) for x in value.flat]))
        return (facts.dtype, shape, self._origin.constants.is_constant(source, name))  # weights take other values

    def _goes_back(self, region: Region, names: Sequence[str], shapes: Shapes) -> bool:
        """Whether the proof may hold only for what stands above the inputs: whether a cut goes back from any."""
        scope = region.scope
        source = self._origin.scope(scope)
        if id(scope) not in self._owners:
            self._owners[id(scope)] = {body.owner for body in scope.bodies}
        if not self._owners[id(scope)].isdisjoint(region.before):
            return True
        ops: set[str] = set()
        for name in names:
            if self._known(source, scope, name) is not None:
                continue
            dtype = shapes.facts(source, name).dtype
            constant = self._origin.constants.is_constant(source, name)
            if dtype in (EXACT if constant else INTEGERS) and shapes.value(source, name) is None:
                return True
            found = None if constant else self._origin.producer(scope, name)
            if found is not None:
                if found[1].op in TRANSPARENT or found[1].op in ops:
                    return True
                ops.add(found[1].op)
        return False

    def _above(self, region: Region, names: Sequence[str], shapes: Shapes, unknown: dict[str, Size]) -> Hashable:
        """What a cut takes in beside the region, with tensors numbered as they come; of no other region if it fails."""
        try:
            cut = Cut(region, self._origin, shapes)
        except CannotCut:
            return id(region)
        numbers: dict[str, int] = {}

        def number(scope: Scope, name: str) -> int:
            return numbers.setdefault(cut.name(scope, name), len(numbers)) if name else -1

        read = tuple([number(region.scope, name) for name in names])
        held = [(name, number(node.scope, name)) for node in (*cut.before, *cut.after) for name in cut.captured(node)]
        nodes = []
        for node in cut.prefix:
            reads = tuple([number(node.scope, name) for name in self._origin.inputs(node)])
            makes = tuple([number(node.scope, name) for name in node.outputs])
            nodes.append((node.op, reads, makes, _attributes(node, shapes)))
        leaves = [(numbers.get(leaf.name), leaf.dtype, *_extent(leaf, unknown)) for leaf in cut.leaves.values()]
        constants = [(numbers.get(name), _content(tensor)) for name, tensor in cut.constants.items()]
        given = shapes.call if held else None  # bodies may refer to the attributes of a function
        return (read, tuple(held), tuple(nodes), tuple(leaves), tuple(constants), given)

    def _known(self, source: Scope, scope: Scope, name: str) -> Hashable:
        """A small constant by its value; None for anything else."""
        home = source.home(name)
        key = (id(scope if home is None else home), name)
        if key not in self._constants:
            self._constants[key] = self._constant(source, scope, name)
        return self._constants[key]

    def _constant(self, source: Scope, scope: Scope, name: str) -> Hashable:
        if source.home(name) is None:
            tensor = scope.initializers.get(name)  # made for the replacement
            return None if tensor is None else _content(tensor)
        constants = self._origin.constants
        if not constants.is_constant(source, name):
            return None
        shape = constants.shape(source, name)
        if shape is None or np.prod(shape) > SMALL:
            return None
        array = constants.array(source, name)
        if array is None:
            return None
        text = array.dtype.kind == "O"
        return (array.dtype.name, array.shape, tuple(array.flat) if text else _short(array.tobytes()))


def _extent(leaf: Leaf, unknown: dict[str, Size]) -> tuple[Hashable, Hashable]:
    """The shape of a leaf and its value, where there are such; a leaf of unknown rank is like no other."""
    if leaf.shape is None:
        return (id(leaf.scope), leaf.tensor), None
    value = None if leaf.value is None else tuple([_renamed(item, unknown) for item in leaf.value.flat])
    return tuple([_renamed(size, unknown) for size in leaf.shape]), value


def _renamed(size: Size, unknown: dict[str, Size]) -> Hashable:
    """A size in which dims that nothing tells are called by the order of their first use."""
    if isinstance(size, int):
        return size
    for name in sorted(symbols(size)):
        if name.startswith("?"):
            unknown.setdefault(name, symbol(f"?{len(unknown)}[]"))
    try:
        return substitute(size, unknown) if symbols(size) & unknown.keys() else size
    except SizeError:
        return size


def _attributes(node: Node, shapes: Shapes) -> Hashable:
    """A node's attributes by value; a reference to a function's attribute by what the call gives."""
    items: list[AttributeProto] = list(node.proto.attribute)
    given = [shapes.attribute(node, item.name) if item.ref_attr_name else item for item in items]
    named = zip(items, given, strict=True)
    return tuple(sorted((old.name, _short(_unnamed(item))) for old, item in named if item is not None))


def _unnamed(item: AttributeProto) -> bytes:
    """An attribute as bytes, without its name: that of a call may have another one."""
    copy = AttributeProto()
    copy.CopyFrom(item)
    copy.ClearField("name")
    data: bytes = copy.SerializeToString(deterministic=True)
    return data


def _content(tensor: Any) -> Hashable:
    """A tensor but for its name."""
    copy = type(tensor)()
    copy.CopyFrom(tensor)
    copy.ClearField("name")
    return _short(copy.SerializeToString(deterministic=True))


def _short(data: bytes) -> bytes:
    """The bytes themselves, or their digest: signatures are kept until all is proved."""
    return data if len(data) <= 64 else blake2b(data, digest_size=32).digest()
