"""Inlines the branch of an If whose condition an edit made constant."""

from collections.abc import Iterator

from onnx import GraphProto, NodeProto, helper

from surgeon.ir.scope import Node
from surgeon.ops.traversal import nested_graphs, unique_name
from surgeon.pipeline.editing.draft import ModelDraft, names_in
from surgeon.pipeline.editing.prune import delete_slots
from surgeon.pipeline.editing.tensor_renaming import rename_in_graph


def constant_ifs(draft: ModelDraft) -> Iterator[tuple[Node, bool]]:
    """Ifs outside local functions with a constant condition, and the condition."""
    for scope in draft.index.scopes:
        for node in scope.by_op.get("If", ()) if scope.function is None else ():
            condition = draft.index.constants.scalar(scope, node.inputs[0])
            if condition is not None and isinstance(scope.proto, GraphProto):
                yield node, bool(condition[0])


def inline_branches(draft: ModelDraft, before: frozenset[str]) -> int:
    """Replace each If with a constant condition by the nodes of its branch; returns the number of removed Ifs.

    before: outputs of Ifs whose condition was constant before the edit; these stay.
    """
    count = 0
    while found := next((one for one in constant_ifs(draft) if before.isdisjoint(one[0].outputs)), None):
        node, truth = found
        assert isinstance(node.scope.proto, GraphProto), "as `constant_ifs` gives them"
        home = node.scope.defining_scope(node.inputs[0])
        maker = None if home is None else home.producers.get(node.inputs[0])
        idle = maker is not None and maker.op == "Constant" and maker.scope.readers(node.inputs[0]) == [node]
        _inline_branch(draft, node.scope.proto, node.source_slot, truth)
        if idle and maker is not None and node.inputs[0] not in maker.scope.protected:
            delete_slots(maker.scope.protos, [maker.source_slot])  # it is before the If, so the If moves up
        draft.changed()
        count += 1
    return count


def _inline_branch(draft: ModelDraft, home: GraphProto, place: int, truth: bool) -> None:
    """Replace one If.  home: graph that contains it.  place: index of its node."""
    owner, wanted = NodeProto(), "then_branch" if truth else "else_branch"
    owner.CopyFrom(home.node[place])
    branch = next(item.g for item in owner.attribute if item.name == wanted)
    del home.node[place]
    made = {name for node in branch.node for name in node.output if name}
    stored = [*(one.name for one in branch.initializer), *(one.values.name for one in branch.sparse_initializer)]
    ends = [value.name for value in branch.output]
    handed = {
        inner: outer
        for inner, outer in zip(ends, owner.output, strict=False)
        if outer and inner in made and ends.count(inner) == 1
    }
    copies = [
        helper.make_node("Identity", [inner], [outer])
        for inner, outer in zip(ends, owner.output, strict=False)
        if outer and inner not in handed
    ]
    taken = draft.taken() | {name for graph in nested_graphs(branch) for name in names_in(graph)}
    names = dict(handed)
    outside = draft.taken().union(owner.output)
    for name in [*sorted(made.difference(handed)), *stored]:
        if name in outside:
            names[name] = unique_name(name, taken)
            taken.add(names[name])
    branch.node.extend(copies)
    rename_in_graph(branch, names)
    for node in reversed(branch.node):
        home.node.insert(place, node)
    if home is draft.graph:
        draft.store(*branch.initializer)
    else:
        home.initializer.extend(branch.initializer)
    home.sparse_initializer.extend(branch.sparse_initializer)
    home.quantization_annotation.extend(branch.quantization_annotation)
    known = {value.name for values in (home.value_info, home.output, home.input) for value in values}
    home.value_info.extend(value for value in branch.value_info if value.name not in known)
