"""Signatures of regions: structure, constants, dtypes and shapes.  Equal regions are proved once."""

import math
from collections.abc import Hashable, Iterable, Sequence
from functools import partial

import numpy as np
from onnx import TensorProto

from surgeon.analysis.assumptions.assumed_facts import AssumedFacts
from surgeon.ir.original_model import OriginalModel, TensorAddress
from surgeon.ir.scope import Node, Scope
from surgeon.ir.structure import Structure, short
from surgeon.ops.traits.trait_lookup import RESHAPE_OPS, TRANSPARENT
from surgeon.ops.traversal import bytes_without
from surgeon.proof.region.backward_slice import EXACT_DTYPES, MAX_CONSTANT_ELEMENTS, RegionSlice
from surgeon.proof.region.data_dependence import DataDependence
from surgeon.proof.region.region import Region
from surgeon.proof.region.region_inputs import BoundaryInput
from surgeon.proof.region.value_equivalence import source_before_reshapes
from surgeon.proof.site_proof import CannotSlice
from surgeon.shapes.algebra.size_expressions import Size, SizeError, substitute, symbol, symbols
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.shapes.tensor_types import INTEGERS_AND_BOOL, UNKNOWN, TensorType, ValueArray, is_unknown

Signature = int  # equal for equal regions; valid for the `Signatures` that gave it
_NEW = "\0"  # before the name of a tensor that the replacement makes


class Signatures:
    """Signatures of the regions of one model.  20,000 of them must cost less than finding the regions did."""

    def __init__(self, origin: OriginalModel) -> None:
        self._origin = origin
        self._structure = Structure()
        self._number = self._structure.number
        self._constants: dict[int, dict[str, int]] = {}
        self._extents: dict[int, tuple[TensorType, int | None]] = {}
        self._of_data: dict[int, tuple[TensorType, bool]] = {}
        self._assumed = AssumedFacts.of_source(origin)

    def of(self, region: Region, shapes: ShapeInference) -> Signature:
        """The signature of a region whose inputs have the dtypes and shapes that `shapes` gives."""
        scope = region.scope
        made = {name for node in region.before for name in node.outputs if name}
        fresh = {name for node in region.after for name in node.outputs if name}
        before = self._names(scope, region.before, made)
        after = [*self._names(scope, region.after, made), *[name for _, name in region.outputs]]
        names = [*before, *[name for name, _ in region.outputs]]
        names += [_NEW + name if name in fresh else name for name in after]
        kind = self._structure.stated if scope.function is None else partial(self._kind, shapes=shapes)
        kinds = tuple(map(kind, (*region.before, *region.after)))
        form = self._structure.form((len(region.before), kinds), names)
        outside = [name for name in form.names if name and name not in made and name[0] != _NEW]
        facts, above = self._outside(region, outside, shapes)
        if self._bakes(region, outside):
            above = (above, self._own(scope, outside))
        versions = frozenset(scope.versions.items())
        content = versions, form.number, facts, above, region.intended_error, region.intended_differences
        zeros = region.sign_sensitive_outputs
        return self._number((content, *[name in zeros for name, _ in region.outputs]) if zeros else content)

    def _kind(self, node: Node, shapes: ShapeInference) -> Hashable:
        """The content of a node; a reference to an attribute of a function counts by the value in the call."""
        if node.scope.function is None:
            return self._structure.stated(node)
        given = []
        for item in node.proto.attribute:
            value = shapes.attribute(node, item.name) if item.ref_attr_name else item
            given += [] if value is None else [(item.name, short(bytes_without(value, "name")))]
        return (node.op, len(node.inputs), len(node.outputs), tuple(sorted(given)), node.proto.overload)

    def of_data(self, scope: Scope, names: Sequence[str], shapes: ShapeInference) -> Hashable | None:
        """The types of data that regions read; None if a proof may depend on the value or the producer of one."""
        source, content, ops = self._origin.scope(scope), list[Hashable](), set[str]()
        for name in names:
            home = source if name in source.producers else source.defining_scope(name)
            facts = UNKNOWN if home is None else shapes.facts_at(home, name)
            known = self._of_data.get(id(facts))  # many tensors share one type: check it once
            if known is None:
                known = self._of_data[id(facts)] = (facts, _is_of_data(facts))
            if home is None or not known[1] or self._origin.constants.is_constant(home, name):
                return None
            maker = home.producers.get(name)
            if maker is not None:
                if maker.op in TRANSPARENT or maker.op in ops or self._are_fixed(source, name, shapes):
                    return None
                ops.add(maker.op)
            content.append((facts, self._assumed.at(source, name)))
        return None if self._are_regrouped(source, names) else tuple(content)

    def _are_regrouped(self, source: Scope, names: Sequence[str]) -> bool:
        """Whether two of these tensors have the same elements after reshapes."""
        makers = [self._origin.producer(source, name) for name in names]
        if not any(found is not None and found[1].op in RESHAPE_OPS for found in makers):
            return False
        behind = [source_before_reshapes(self._origin, source, name) for name in dict.fromkeys(names)]
        return len(set(behind)) < len(behind)

    def _are_fixed(self, source: Scope, name: str, shapes: ShapeInference) -> bool:
        """Whether a tensor is computed only from constants: a slice goes back to these."""
        same = partial(self._origin.substitute, taken=set())
        return DataDependence(self._origin, shapes, same).depends_only_on(source, name)

    def _bakes(self, region: Region, names: Iterable[str]) -> bool:
        """Whether the replacement holds constants that may be computed from the model's weights."""
        scope, source = region.scope, self._origin.scope(region.scope)
        made = (scope.initializers.get(name) for name in names if source.defining_scope(name) is None)
        sizes = [math.prod(tensor.dims) for tensor in made if tensor is not None]
        return bool(sizes) and (max(sizes) > MAX_CONSTANT_ELEMENTS or self._folds_weights(region, source))

    def _folds_weights(self, region: Region, source: Scope) -> bool:
        """Whether a node of a region reads a large weight and otherwise only constants."""
        fixed, constants = set[str](), self._origin.constants
        for node in region.before:
            names = [name for name in self._origin.inputs(node) if name]
            if names and all(name in fixed or constants.is_constant(source, name) for name in names):
                fixed.update(node.outputs)
                shapes = (constants.shape(source, name) for name in names if name not in fixed)
                if any(shape is not None and math.prod(shape) > MAX_CONSTANT_ELEMENTS for shape in shapes):
                    return True
        return False

    def _own(self, scope: Scope, names: Iterable[str]) -> Hashable:
        """The outside tensors that the source has: a constant computed from a weight is valid only for that weight."""
        source = self._origin.scope(scope)
        homes = [(source.defining_scope(name), name) for name in names]
        return tuple([(id(home), name) for home, name in homes if home is not None])

    def _names(self, scope: Scope, nodes: Sequence[Node], made: set[str]) -> list[str]:
        """The names that the nodes read and produce, in order; equal outside tensors under one name."""
        names: list[str] = []
        changed = bool(scope.redirected)
        for node in nodes:
            names += self._origin.inputs(node) if changed else node.inputs
            names += node.outputs
        if self._origin.shares:
            same, taken = self._origin.substitute, set[TensorAddress]()
            return [same(scope, name, taken) if name and name not in made else name for name in names]
        return names

    def _outside(self, region: Region, names: Sequence[str], shapes: ShapeInference) -> tuple[Hashable, Hashable]:
        """The types of the tensors from outside of a region, and the nodes above them that the proof may depend on.

        A constant counts by its value, a large weight or any other tensor by dtype and shape.  The proof may depend on
        the nodes above if a slice goes back from any of these tensors.
        """
        scope, origin = region.scope, self._origin
        source = origin.scope(scope)
        constants = self._constants.setdefault(id(scope), {})
        goes_back = any(map(origin.bodies, region.before))
        unknown: dict[str, Size] = {}
        ops: set[str] = set()
        contents: list[Hashable] = []
        for name in names:
            known = constants.get(name)
            if known is None and (content := self._constant(source, scope, name)) is not None:
                known = constants[name] = self._number(content)
            if known is not None:
                contents.append(known)
                continue
            facts, is_weight = shapes.facts(source, name), origin.constants.is_constant(source, name)
            value = shapes.value(source, name) if facts.dtype in INTEGERS_AND_BOOL else None
            contents.append(self._tensor_content(source, name, facts, value, is_weight=is_weight, unknown=unknown))
            if facts.dtype in (EXACT_DTYPES if is_weight else INTEGERS_AND_BOOL) and value is None:
                goes_back = True
            found = None if is_weight or goes_back else origin.producer(source, name)
            if found is not None:
                goes_back = found[1].op in TRANSPARENT or found[1].op in ops or self._are_fixed(source, name, shapes)
                ops.add(found[1].op)
        goes_back = goes_back or self._are_regrouped(source, names)
        return tuple(contents), self._above(region, names, shapes, unknown) if goes_back else None

    def _tensor_content(
        self,
        source: Scope,
        name: str,
        facts: TensorType,
        value: ValueArray | None,
        *,
        is_weight: bool,
        unknown: dict[str, Size],
    ) -> Hashable:
        """The type of a tensor that is not a small constant; weights take other values than data."""
        if facts.shape is None:
            return (*facts, id(source.defining_scope(name)), name)
        known = self._extents.get(id(facts))  # stored with it, because an id is valid only while its object lives
        if known is None:
            has_own = any(map(is_unknown, facts.shape))
            known = self._extents[id(facts)] = (facts, None if has_own else self._number(facts))
        extent = known[1]
        shape = (facts.dtype, *[_renamed(size, unknown) for size in facts.shape]) if extent is None else extent
        content = is_weight if value is None else tuple([_renamed(x, unknown) for x in value.flat])
        return (shape, content, self._assumed.at(source, name))

    def _above(
        self, region: Region, names: Sequence[str], shapes: ShapeInference, unknown: dict[str, Size]
    ) -> Hashable:
        """The nodes that a slice adds to the region, with tensors numbered by first use; unique if the slice fails."""
        try:
            cut = RegionSlice(region, self._origin, shapes)
        except CannotSlice:
            return id(region)
        numbers: dict[str, int] = {}

        def number(scope: Scope, name: str) -> int:
            return numbers.setdefault(cut.name(scope, name), len(numbers)) if name else -1

        for node in region.before if cut.between else ():
            for name in node.outputs:
                number(region.scope, name)
        read = tuple([number(region.scope, name) for name in names])
        held = [(name, number(node.scope, name)) for node in (*cut.before, *cut.after) for name in cut.captured(node)]
        nodes = []
        for node in (*cut.prefix, *cut.between):
            reads = tuple([number(node.scope, name) for name in self._origin.inputs(node)])
            makes = tuple([number(node.scope, name) for name in node.outputs])
            nodes.append((self._kind(node, shapes), reads, makes))
        boundaries = [
            (numbers.get(boundary.name), boundary.dtype, boundary.assumption, *_extent(boundary, unknown))
            for boundary in cut.boundary_inputs.values()
        ]
        constants = [(numbers.get(name), _content(tensor)) for name, tensor in cut.constants.items()]
        given = shapes.call if held else None  # bodies may refer to the attributes of a function
        return (read, tuple(held), tuple(nodes), tuple(boundaries), tuple(constants), given)

    def _constant(self, source: Scope, scope: Scope, name: str) -> Hashable:
        """A small constant by its value; None for anything else."""
        if source.defining_scope(name) is None:
            tensor = scope.initializers.get(name)  # created for the replacement
            return None if tensor is None else _content(tensor)
        constants = self._origin.constants
        if not constants.is_constant(source, name):
            return None
        shape = constants.shape(source, name)
        if shape is None or np.prod(shape) > MAX_CONSTANT_ELEMENTS:
            return None
        array = constants.array(source, name)
        if array is None:
            return None
        text = array.dtype.kind == "O"
        return (array.dtype.name, array.shape, tuple(array.flat) if text else short(array.tobytes()))


def _is_of_data(facts: TensorType) -> bool:
    """Whether a tensor of floats has only dims that are numbers or have names."""
    return (
        facts.shape is not None
        and facts.dtype not in (None, *INTEGERS_AND_BOOL)
        and not any(map(is_unknown, facts.shape))
    )


def _extent(boundary: BoundaryInput, unknown: dict[str, Size]) -> tuple[Hashable, Hashable]:
    """The shape and the value of a boundary input, where known; one of unknown rank equals no other."""
    if boundary.shape is None:
        return (id(boundary.scope), boundary.tensor), None
    value = None if boundary.value is None else tuple([_renamed(item, unknown) for item in boundary.value.flat])
    return tuple([_renamed(size, unknown) for size in boundary.shape]), value


def _renamed(size: Size, unknown: dict[str, Size]) -> Hashable:
    """A size in which generated names of dims are numbered by first use."""
    if isinstance(size, int):
        return size
    for name in sorted(symbols(size)):
        if name.startswith("?"):
            unknown.setdefault(name, symbol(f"?{len(unknown)}[]"))
    try:
        return substitute(size, unknown) if symbols(size) & unknown.keys() else size
    except SizeError:
        return size


def _content(tensor: TensorProto) -> Hashable:
    """A tensor without its name."""
    return short(bytes_without(tensor, "name"))
