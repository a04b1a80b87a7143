"""The changes of an edited index, as byte-range edits to the source file or as edits of a skeleton."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import onnx

from surgeon.file.model import Address
from surgeon.file.patch import Patch
from surgeon.file.skeleton_edits import SkeletonEdits
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope

MODEL_IMPORT, FUNCTION_IMPORT = 8, 9
FUNCTION = 25
INITIALIZER, INPUT, VALUE_INFO, SPARSE = 5, 11, 13, 15
FUNCTION_VALUE_INFO = 12
NODE_INPUT = 1


def index_patch(index: Index) -> Patch:
    """The edits that turn the source file into the current index.  Without rewrites: an empty patch."""
    patch = Patch(index.model)
    _write(index, patch)
    return patch


def commit(
    index: Index, skeleton: onnx.ModelProto, stored: Callable[[onnx.TensorProto], onnx.TensorProto] | None = None
) -> None:
    """Make the changes of an index in a copy of the skeleton of its model.  stored: a new tensor as it is inserted."""
    edits = SkeletonEdits(skeleton, stored)
    _write(index, edits)
    edits.apply()


def _write(index: Index, patch: Patch | SkeletonEdits) -> None:
    """Add the changes of an index to a patch, or to the edits of a skeleton."""
    for scope in index.scopes:
        if not scope.is_gone:
            _patch_nodes(patch, index, scope)
            _patch_tensors(patch, index, scope)
    homes = {domain for domain, *_ in index.local.added}
    _patch_imports(patch, (), MODEL_IMPORT, imports=index.model.skeleton.opset_import, scope=index.main, more=homes)
    for scope in index.functions:
        if not scope.is_dropped:
            _patch_imports(patch, scope.address, FUNCTION_IMPORT, imports=scope.proto.opset_import, scope=scope)
    _patch_functions(patch, index)


def _patch_functions(patch: Patch | SkeletonEdits, index: Index) -> None:
    """Remove functions without calls, and append new ones."""
    patch.delete_all((), FUNCTION, [place for place, scope in enumerate(index.functions) if scope.is_dropped])
    if index.local.added:
        bodies = [function.SerializeToString() for function in index.local.added.values()]
        patch.insert((), FUNCTION, len(index.functions), bodies)


def _patch_nodes(patch: Patch | SkeletonEdits, index: Index, scope: Scope) -> None:
    field, where = scope.node_field, scope.address
    remade: dict[int, list[bytes]] = {}
    for node in scope.redirected:
        if node.alive and not node.moved:
            _patch_inputs(patch, (*where, (field, node.slot)), node)
    for slot, added in scope._added.items():
        if added:
            remade[slot] = [record_now(index, node) for node in added]
    if remade:
        patch.replace_all(where, field, remade)
    nodes = scope.nodes
    gone = [slot for slot in sorted(scope._touched.difference(remade)) if not nodes[slot].alive or nodes[slot].moved]
    if gone:  # an empty body has no position in the file
        patch.delete_all(where, field, gone)


def _patch_inputs(patch: Patch | SkeletonEdits, where: Address, node: Node) -> None:
    for position, (old, new) in enumerate(zip(node.proto.input, node.inputs, strict=True)):
        if old != new:
            patch.replace(where, NODE_INPUT, position, [new.encode()])


def _patch_tensors(patch: Patch | SkeletonEdits, index: Index, scope: Scope) -> None:
    proto, where = scope.proto, scope.address
    dead = scope._removed_tensors.difference(scope.producers)
    dead.update(scope._dropped_initializers.difference(scope.producers))
    if dead:
        field = FUNCTION_VALUE_INFO if scope.is_function else VALUE_INFO
        patch.delete_all(where, field, [place for place, value in enumerate(proto.value_info) if value.name in dead])
    if not isinstance(proto, onnx.GraphProto):
        return
    dropped = scope._dropped_initializers
    if dropped:
        for field, names in (
            (INITIALIZER, [tensor.name for tensor in proto.initializer]),
            (SPARSE, [tensor.values.name for tensor in proto.sparse_initializer]),
            (INPUT, [value.name for value in proto.input]),
        ):
            patch.delete_all(where, field, [place for place, name in enumerate(names) if name in dropped])
    fresh = [
        tensor for tensor in scope._new_initializers if scope.is_read(tensor.name) or tensor.name in scope.protected
    ]
    if fresh:
        patch.insert_tensors(where, INITIALIZER, len(proto.initializer), fresh)
        if index.ir_version < 4 and scope.parent is None:
            # Below IR 4 every initializer is an input as well (ONNX IR spec, "Graphs").
            infos = [onnx.helper.make_tensor_value_info(item.name, item.data_type, list(item.dims)) for item in fresh]
            patch.insert(where, INPUT, len(proto.input), [info.SerializeToString() for info in infos])


def _patch_imports(
    patch: Patch | SkeletonEdits,
    where: Address,
    field: int,
    imports: Sequence[onnx.OperatorSetIdProto],
    scope: Scope,
    more: Iterable[str] = (),
) -> None:
    """Import the domains of new nodes, and `more` domains, unless they are imported."""
    known = {item.domain for item in imports} | ({""} if any(item.domain == "ai.onnx" for item in imports) else set())
    used = {node.op.rpartition("::")[0] for node in _new_nodes_below(scope)}
    for domain in sorted(used.union(more) - known):
        body = onnx.OperatorSetIdProto(domain=domain, version=scope.versions.get(domain, 1)).SerializeToString()
        patch.insert(where, field, len(imports), [body])


def _new_nodes_below(scope: Scope) -> Iterator[Node]:
    """New nodes of a scope and of the bodies below it."""
    yield from scope.new_nodes()
    for body in scope.bodies:
        yield from _new_nodes_below(body)


def record_now(index: Index, node: Node) -> bytes:
    """The serialised node: one of the source as in the file, except for redirected inputs."""
    if node.encoded is not None:
        return node.encoded
    scope = node.scope
    record = index.model.record(scope.address, scope.node_field, node.source_slot)
    if node in scope.redirected:
        proto = onnx.NodeProto.FromString(record)
        proto.input[:] = node.inputs
        record = proto.SerializeToString()
    return record
