"""Edits of a scope: the only code that changes the tables of an index after it is built."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from onnx import TensorProto

from surgeon.file.tensors.decoding import Array
from surgeon.ir.scope import Node, Scope


def captures(scope: Scope, node: Node) -> list[str]:
    """Tensors of this scope and of outer ones that the bodies of a node read, once per use."""
    found: list[str] = []
    for body in scope.bodies:
        if body.owner is node:
            inner = [name for item in body.live_nodes() for name in (*item.inputs, *captures(body, item)) if name]
            found += [name for name in inner if not body.defines(name)]
    return found


def detach(scope: Scope, nodes: Sequence[Node], outputs: Collection[str], kept: Iterable[Node]) -> list[str]:
    """Remove nodes from the scope; returns the tensors that they read and that have no readers now.

    outputs: the tensors of these nodes that others read.
    kept: nodes among them whose tensors are produced again, under the same names.
    """
    inner = {""}
    taken: list[str] = []
    for node in nodes:
        taken += node.inputs
        if scope.bodies:
            taken += captures(scope, node)
        inner.update(node.outputs)
    remove(scope, nodes)
    scope._removed_tensors |= inner
    inner.difference_update(outputs)
    read = [name for name in taken if name not in inner]
    loose = retire(scope, read)
    for name in {name for node in kept for name in node.outputs}.difference(outputs):
        _forget_readers(scope, name)
    return [name for name in loose if name not in outputs]


def remove(scope: Scope, nodes: Iterable[Node]) -> None:
    """Remove nodes; the uses of their inputs are not updated."""
    producers, touched = scope._producers, scope._touched
    for node in nodes:
        node.alive = False
        slot = node.slot
        touched.add(slot)
        for name in node.outputs:
            producers.pop(name, None)
        if slot != node.source_slot:  # a new node, or one that moved
            scope._added[slot].remove(node)
    scope._live = None


def _touch(scope: Scope, slot: int) -> None:
    """Note that the contents of a slot changed."""
    scope._touched.add(slot)
    scope._live = None


def sweep(scope: Scope, node: Node) -> list[str]:
    """Remove a node that is not needed, and whose output names are not reused.

    Returns the tensors that it read and that have no readers now.
    """
    remove(scope, (node,))
    scope._removed_tensors.update(node.outputs)
    return retire(scope, [item for item in node.inputs if item] + captures(scope, node))


def retire(scope: Scope, names: Iterable[str]) -> list[str]:
    """Decrement the use counts of these tensors; returns those without uses."""
    loose: list[str] = []
    for name in names:
        home = scope if name in scope._consumers else scope.defining_scope(name)
        if home is not None:
            uses = home._retired[name] = home._retired.get(name, 0) + 1
            if uses >= len(home._consumers.get(name, ())):
                loose.append(name)
    return loose


def _forget_readers(scope: Scope, name: str) -> None:
    """Note that a tensor has no readers any more."""
    scope._consumers.pop(name, None)
    scope._retired.pop(name, None)


def move(scope: Scope, node: Node, slot: int) -> None:
    """Remove a node from its position, to be listed in another slot; its record stays as in the file."""
    listed = scope._added.get(node.slot, ())
    if node in listed:
        scope._added[node.slot].remove(node)
    _touch(scope, node.slot)
    node.slot = slot


def listed_in(scope: Scope, slot: int) -> Sequence[Node]:
    """The nodes listed in a slot after its own node."""
    return scope._added.get(slot, ())


def put(scope: Scope, slot: int, place: int, nodes: Sequence[Node]) -> None:
    """List nodes at a position of a slot."""
    scope._added.setdefault(slot, [])[place:place] = nodes
    _touch(scope, slot)


def attach(scope: Scope, node: Node) -> None:
    """Enter a listed node in the tables: its outputs' producer, and its inputs' consumers."""
    for name in node.outputs:
        if name:
            scope._producers[name] = node
    for name in node.inputs:
        if name in scope._consumers:
            scope._consumers[name].append(node)
            continue
        home = scope.defining_scope(name) if name else None
        if home is not None:
            home._consumers.setdefault(name, []).append(node)
    scope._by_op[node.op].append(node)


def replace_uses(scope: Scope, old: str, new: str) -> list[Node]:
    """Redirect every reader of one tensor of a scope to another; returns the readers, each once."""
    home = scope.defining_scope(new) or scope
    readers = list(dict.fromkeys(scope.readers(old)))
    _forget_readers(scope, old)
    for reader in readers:
        uses = reader.inputs.count(old)
        reader.inputs = tuple(new if name == old else name for name in reader.inputs)
        home._consumers.setdefault(new, []).extend([reader] * uses)
        if reader.encoded is None:
            reader.scope._redirected.add(reader)
        else:
            proto = reader.proto
            proto.input[:] = reader.inputs
            reader.encoded = proto.SerializeToString()
    return readers


def mark_equal(scope: Scope, old: str, new: str) -> None:
    """Note that a tensor equals the one that its readers read instead: both are in the file."""
    scope._equal[old] = new


def set_known_value(scope: Scope, name: str, values: Array) -> None:
    """Note the computed value of a tensor, which does not depend on inputs."""
    scope._fixed[name] = values


def merge_initializers(scope: Scope, instead: Mapping[str, str]) -> None:
    """Redirect readers of initializers to others with equal bytes; their names are not reused."""
    for old, new in instead.items():
        replace_uses(scope, old, new)
    scope._shared.update(instead)
    scope._removed_tensors.update(instead)


def pin(scope: Scope, name: str, why: str) -> None:
    """Keep the name of a tensor, because not only nodes read it."""
    home = scope.defining_scope(name) or scope
    home._protected.setdefault(name, why)


def add_initializer(scope: Scope, tensor: TensorProto) -> None:
    """Add an initializer with a new name to a scope."""
    scope._new_initializers.append(tensor)
    scope._initializers[tensor.name] = tensor


def drop_initializer(scope: Scope, name: str) -> None:
    """Remove an initializer, and the input that it is below IR 4."""
    scope._dropped_initializers.add(name)
    scope._initializers.pop(name, None)
    scope._sparse.pop(name, None)
    scope._inputs.discard(name)


def import_domain(scope: Scope, domain: str, version: int) -> None:
    """Import a missing domain into a scope, and into those that share its imports."""
    scope._versions.setdefault(domain, version)


def drop(function: Scope) -> None:
    """Remove a function without calls."""
    function._is_dropped = True
