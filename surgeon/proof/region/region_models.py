"""The proof case of a slice: all that a proof reads from the index is read here.

These are the slice as two models, and the sums, whose order of terms is up to a kernel.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from graphlib import CycleError, TopologicalSorter

import onnx
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TensorProto, helper

from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import op_of, require_declared_inputs, traits_of
from surgeon.ops.traversal import (
    GRAPHS,
    FunctionKey,
    all_nodes,
    attribute_graphs,
    called_function_key,
    names_read,
    nodes_of,
)
from surgeon.proof.cases.cache_limit import CacheLimit, past_of
from surgeon.proof.node_cost import CostTerm, node_costs
from surgeon.proof.proof_case import CaseInput, ProofCase, ProofOptions, Reduction, RegionModels, Shape
from surgeon.proof.region.backward_slice import MAX_CONSTANT_ELEMENTS, RegionSlice
from surgeon.proof.region.literals import position_literals, region_literals, value_literals
from surgeon.proof.region.region_inputs import BoundaryInput
from surgeon.proof.site_proof import CannotSlice
from surgeon.rules.replacing.node_builder import with_renamed_bodies
from surgeon.runtime.function_inlining import IR_VERSION, node_label
from surgeon.shapes.algebra.size_expressions import Size, SizeError, symbols
from surgeon.shapes.op_rules.size_constraints import SizeConstraint, max_index_counts, size_constraints

BodyLookup = Callable[[Node], FunctionProto | None]
"""Gives the reference function of a node that ONNX Runtime may have no kernel for."""
HEAVY = (*GRAPHS, AttributeProto.TENSOR, AttributeProto.TENSORS)


def region_models(cut: RegionSlice) -> RegionModels:
    """Build both models of a slice.  Raises CannotSlice if an input's dtype or rank is unknown."""
    dims: dict[Size, str] = {}
    inputs = [_input(boundary, dims) for boundary in cut.boundary_inputs.values()]
    prefix = [_node(cut, node) for node in cut.prefix]
    before = [*prefix, *(_node(cut, node) for node in cut.before)]
    made = {name for node in cut.after for name in node.outputs}
    after = [*prefix, *(_again(cut, node) for node in cut.recomputed), *(_node(cut, node, made) for node in cut.after)]
    for old, new in cut.region.outputs:
        if new != old:
            source = new if new in made else cut.substitutes.get(new) or cut.name(cut.region.scope, new)
            after.append(helper.make_node("Identity", [source], [old]))
        elif new not in made:
            raise CannotSlice(f"no node produces {old!r} after the rewrite")
    if not set(cut.before).isdisjoint(cut.after):  # a node that stays may read an output of the replacement
        after = _sorted(after)
    names = [old for old, _ in cut.region.outputs]
    graphs = [_model(cut, nodes, inputs, names, with_new=nodes is after) for nodes in (before, after)]
    graphs[0].graph.value_info.extend(_tables(cut, dims))
    return RegionModels(graphs[0], graphs[1], {text: size for size, text in dims.items()})


def _sorted(nodes: Iterable[NodeProto]) -> list[NodeProto]:
    """Nodes in topological order, otherwise in the order given."""
    listed = list(nodes)
    makers = {name: place for place, node in enumerate(listed) for name in node.output if name}
    needs = {place: [makers[name] for name in names_read(node) if name in makers] for place, node in enumerate(listed)}
    try:
        return [listed[place] for place in TopologicalSorter(needs).static_order()]
    except CycleError:
        raise CannotSlice("its nodes form a cycle") from None


def _input(boundary: BoundaryInput, dims: dict[Size, str]) -> onnx.ValueInfoProto:
    if not boundary.dtype:
        raise CannotSlice(f"the dtype of {boundary.tensor!r} is unknown")
    if boundary.shape is None:
        raise CannotSlice(f"the rank of {boundary.tensor!r} is unknown")
    if boundary.value is not None:
        return helper.make_tensor_value_info(boundary.name, boundary.dtype, list(boundary.value.shape))
    shape = [dims.setdefault(size, f"d{len(dims)}") for size in boundary.shape]
    return helper.make_tensor_value_info(boundary.name, boundary.dtype, shape)


def _tables(cut: RegionSlice, dims: dict[Size, str]) -> Iterator[onnx.ValueInfoProto]:
    """The shapes of computed tables that nodes look up in, so that indices stay inside."""
    free = frozenset().union(*map(symbols, dims))
    given = cut.constants.keys() | {boundary.name for boundary in cut.boundary_inputs.values()}
    found = {cut.name(scope, name): cut.shapes.facts(cut.origin.scope(scope), name) for scope, name in _looked_up(cut)}
    for name, (dtype, shape) in found.items():
        if dtype and shape is not None and name not in given:
            stated = [dims.setdefault(size, f"d{len(dims)}") if symbols(size) <= free else None for size in shape]
            yield helper.make_tensor_value_info(name, dtype, stated)


def _looked_up(cut: RegionSlice) -> Iterator[tuple[Scope, str]]:
    for node in (*cut.prefix, *cut.before):
        for lookup in traits_of(node.op).indexing.lookups:
            yield from ((node.scope, table) for table in node.inputs[lookup.table : lookup.table + 1] if table)


def _node(cut: RegionSlice, node: Node, made: "frozenset[str] | set[str]" = frozenset()) -> NodeProto:
    """A node with the names of the region's models; references to a function's attributes are resolved."""
    proto = NodeProto()
    proto.CopyFrom(_full(cut, node))
    instead = cut.substitutes if made else {}

    def called(name: str) -> str:
        return name if not name or name in made else instead.get(name) or cut.name(node.scope, name)

    proto.input[:] = map(called, cut.origin.inputs(node))
    if node.original:
        proto.output[:] = [cut.name(node.scope, name) if name else "" for name in node.outputs]
    _rename_captured(proto, {name: called(name) for name in cut.captured(node)})
    _resolve(cut, proto)
    if proto.domain == "ai.onnx":
        proto.domain = ""
    return proto


def _rename_captured(proto: NodeProto, called: dict[str, str]) -> None:
    """Rename the tensors that the bodies of a node read from outside."""
    if any(name != now for name, now in called.items()):
        for item in proto.attribute:
            if item.type in GRAPHS:
                item.CopyFrom(with_renamed_bodies(item, called, str))


def _again(cut: RegionSlice, node: Node) -> NodeProto:
    """A node of the source for the replacement's model, with other names for its outputs."""
    proto = _node(cut, node)
    for names in (proto.input, proto.output):
        names[:] = [cut.substitutes.get(name, name) for name in names]
    _rename_captured(proto, cut.substitutes)
    return proto


def _resolve(cut: RegionSlice, proto: NodeProto) -> None:
    """Replace references to a function's attributes by the values in its call, in bodies too."""
    kept: list[AttributeProto] = []
    for item in proto.attribute:
        if item.ref_attr_name:
            given = cut.shapes.given(item.ref_attr_name)
            if given is not None:
                kept.append(AttributeProto())
                kept[-1].CopyFrom(given)
                kept[-1].name = item.name
            continue
        for graph in attribute_graphs(item):
            for inner in graph.node:
                _resolve(cut, inner)
        kept.append(item)
    if len(kept) < len(proto.attribute) or any(item.ref_attr_name for item in proto.attribute):
        kept = [AttributeProto.FromString(item.SerializeToString()) for item in kept]
        del proto.attribute[:]
        proto.attribute.extend(kept)


def _full(cut: RegionSlice, node: Node) -> NodeProto:
    """The node with all its data; payloads of its tensors and bodies may still be in the file."""
    proto = node.proto
    if node.original and any(item.type in HEAVY for item in proto.attribute):
        proto = NodeProto.FromString(cut.origin.model.serialize(proto))
        for item in proto.attribute:
            if item.type == AttributeProto.TENSOR and item.t.data_location == TensorProto.EXTERNAL:
                value = cut.origin.model.value(item.t)
                item.t.CopyFrom(onnx.numpy_helper.from_array(value, item.t.name))
    return proto


def _model(
    cut: RegionSlice,
    nodes: Sequence[NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Iterable[str],
    *,
    with_new: bool,
) -> ModelProto:
    """One side, with the small constants of both sides and the large ones that it reads.

    with_new: include local functions that rules added.
    """
    model = ModelProto(ir_version=IR_VERSION)
    graph = model.graph
    graph.name = "region"
    graph.node.extend(nodes)
    names = Counter(node.name for node in nodes)
    for node in graph.node:
        if names[node.name] > 1:  # ONNX Runtime rejects duplicate names, and nodes of several scopes may share one
            node.name = ""
    graph.input.extend(inputs)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    read = {name for node in nodes for name in names_read(node)}
    for name, tensor in cut.constants.items():
        if name in read or math.prod(tensor.dims) <= MAX_CONSTANT_ELEMENTS:
            graph.initializer.add().CopyFrom(tensor)
            graph.initializer[-1].name = name
    functions = _functions(cut, nodes, with_new)
    versions = dict(cut.region.scope.versions)
    for node in all_nodes(nodes):
        versions.setdefault(node.domain, 1)
    used = {"", *(node.domain for node in all_nodes(nodes))}
    model.opset_import.extend(
        helper.make_opsetid(domain, versions[domain]) for domain in sorted(used) if domain in versions
    )
    model.functions.extend(functions)
    known = {item.domain for item in model.opset_import}
    for function in functions:
        model.opset_import.extend(item for item in function.opset_import if item.domain not in known)
        known.update(item.domain for item in function.opset_import)
    return model


def _functions(cut: RegionSlice, nodes: Iterable[NodeProto], with_new: bool) -> list[FunctionProto]:
    """The local functions that the nodes call, directly or through others."""
    local = cut.origin.index.local
    found: dict[FunctionKey, FunctionProto] = {}
    waiting = list(all_nodes(nodes))
    while waiting:
        key = called_function_key(waiting.pop())
        function = local.get(key) if with_new or local.is_in_source(key) else None
        if function is not None and key not in found:
            found[key] = function
            waiting += all_nodes(function.node)
    return list(found.values())


def reductions(cut: RegionSlice) -> Iterator[Reduction]:
    """The sums that the original nodes take, where their shapes are known."""
    for node in cut.before:
        yield from _sums(cut, node)


def picks_by_products(cut: RegionSlice) -> bool:
    """Whether the original nodes take a softmax, and multiply two computed matrices: scores of attention."""
    if any(traits_of(node.op).products.kind == "attention" for node in cut.before):
        return True
    return any(traits_of(node.op).numerics.is_softmax for node in cut.before) and any(
        map(partial(_computes_both, cut), cut.before)
    )


def _computes_both(cut: RegionSlice, node: Node) -> bool:
    """Whether a node multiplies two matrices, neither of them a constant."""
    scope = cut.origin.scope(node.scope)
    slots = traits_of(node.op).products.factors or ()
    return bool(slots) and not any(cut.origin.constants.is_constant(scope, node.inputs[slot]) for slot in slots)


def _sums(cut: RegionSlice, node: Node) -> Iterator[Reduction]:
    """The sums that one node takes."""
    known = traits_of(node.op)
    if known.indexing.reads_coordinates and known.products.weight_slot is not None:
        weight = _shape(cut, node, node.inputs[known.products.weight_slot])
        if weight is not None:
            yield Reduction(weight[1:])  # [M, C/group, ...]: each output sums over all but the first axis
    if known.numerics.reduces != "sum" and known.numerics.norm_axis is None:
        return
    given, made = (_shape(cut, node, name) for name in (node.inputs[0], node.outputs[0]))
    if given is None or made is None:
        return
    if known.numerics.norm_axis is None:
        yield Reduction(given, made)
        return
    first = known.numerics.norm_axis
    if isinstance(first, str):
        axis = node.attribute(first)
        first = -1 if axis is None else axis.i
    yield Reduction(given[first:])


def _shape(cut: RegionSlice, node: Node, name: str) -> Shape | None:
    return cut.shapes.facts(cut.origin.scope(node.scope), name).shape


def build_proof_case(cut: RegionSlice, options: ProofOptions, bodies: BodyLookup) -> ProofCase:
    """The proof case of a slice.  Raises CannotSlice if an input's dtype or rank is unknown."""
    sides = region_models(cut)
    for node in nodes_of(sides.after):
        require_declared_inputs(op_of(node), node.input, node_label(node))
    return ProofCase(
        models=sides,
        inputs=tuple(
            CaseInput(
                boundary.name, boundary.shape or (), boundary.value, boundary.weight, assumption=boundary.assumption
            )
            for boundary in cut.boundary_inputs.values()
        ),
        outputs=tuple(name for name, _ in cut.region.outputs),
        options=options,
        bodies_before=_bodies(cut, sides.before, cut.before, bodies),
        bodies_after=_bodies(cut, sides.after, cut.after, bodies),
        always_empty=frozenset(name for name, _ in cut.region.outputs if 0 in cut.sizes(name)),
        sign_sensitive=cut.region.sign_sensitive_outputs,
        stated_shapes={name: tuple(cut.sizes(name)) for name, _ in cut.region.outputs},
        output_dtypes=dict(_output_dtypes(cut)),
        replacement_only=frozenset(_added(cut)),
        literals=region_literals(cut),
        value_literals=value_literals(cut),
        position_literals=position_literals(cut),
        costs=tuple(_costs(cut)),
        size_constraints=tuple(_constraints(cut)),
        cache_limits=tuple(_cache_limits(cut)),
        max_dims=max_index_counts(cut.shapes, (*cut.prefix, *cut.before)),
        reductions=tuple(reductions(cut)),
        picks_by_products=picks_by_products(cut),
        weights=cut.weights,
        slack=cut.region.intended_error,
        intended_differences=cut.region.intended_differences,
    )


def _output_dtypes(cut: RegionSlice) -> Iterator[tuple[str, int]]:
    """The outputs whose dtype the source knows."""
    scope = cut.origin.scope(cut.region.scope)
    for name, _ in cut.region.outputs:
        if (dtype := cut.shapes.dtype(scope, name)) is not None:
            yield name, dtype


def _costs(cut: RegionSlice) -> Iterator[CostTerm]:
    """The work of the original nodes, where their shapes are known."""
    for node in cut.before:
        scope = cut.origin.scope(node.scope)
        reads, makes = (
            [cut.shapes.facts(scope, name).shape if name else None for name in names]
            for names in (node.inputs, node.outputs)
        )
        yield from node_costs(node.op, reads, makes)


def _bodies(
    cut: RegionSlice, model: onnx.ModelProto, nodes: Sequence[Node], bodies: BodyLookup
) -> dict[str, FunctionProto]:
    """The known reference functions of nodes, by the node's name in the model."""
    known = {node_label(node) for node in model.graph.node}
    found: dict[str, FunctionProto] = {}
    for node in nodes:
        body = bodies(node)
        if body is not None:
            name = node.name if node.name in known else cut.name(node.scope, node.outputs[0])
            found[name] = body
    return found


def _constraints(cut: RegionSlice) -> Iterator[SizeConstraint]:
    """Size constraints of the nodes, where more than one size is dynamic: a single one has nothing to fit."""
    free: set[str] = set()
    for boundary in cut.boundary_inputs.values():
        values = () if boundary.value is None else boundary.value.reshape(-1)
        free.update(name for size in (*(boundary.shape or ()), *values) for name in symbols(size))
    if len(free) < 2:
        return
    try:
        yield from size_constraints(cut.shapes, (*cut.prefix, *cut.before))
    except SizeError:
        return  # too large: sizes satisfy the constraints found so far


def _cache_limits(cut: RegionSlice) -> Iterator[CacheLimit]:
    """The sizes that the replacement's attentions with a cache refuse."""
    olds = {new: old for old, new in cut.region.outputs}
    for node in [one for one in cut.after if traits_of(one.op).operands.key_counts is not None]:
        past = _shape(cut, node, name) if (name := past_of(node)) else None
        whole = cut.sizes(olds[node.outputs[1]]) if past and node.outputs[1:2] and node.outputs[1] in olds else ()
        if past is not None and len(past) == len(whole) > 2:
            yield CacheLimit(past[0], past[2], whole[2] - past[2])


def _added(cut: RegionSlice) -> set[str]:
    """The constants that the original nodes do not read themselves, by their names in the region's models."""
    read = {cut.name(node.scope, name) for node in cut.before for name in cut.reads(node)}
    return cut.constants.keys() - read
