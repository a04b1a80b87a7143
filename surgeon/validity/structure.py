"""Structural check of a rewritten model: complaints that the model before the rewrite did not already earn.

`faults` finds what only a walk over all scopes can show, `changes` what onnx.checker says of the changed parts.
"""

from onnx import ModelProto

from surgeon.validity.changes import check_changes
from surgeon.validity.faults import Fault, faults_of


def check_structure(before: ModelProto, after: ModelProto) -> list[str]:
    """Return what is wrong with `after` that was not already wrong with `before`, one sentence each; empty if nothing.

    Both may be skeletons: large payloads are not looked at.  Faults that `before` has too (unsorted nodes, operators
    that only ONNX Runtime knows in the default domain, a name made twice) are accepted as they come.
    """
    found = faults_of(after)
    if found:
        known = set(map(_key, faults_of(before)))
        found = [fault for fault in found if _key(fault) not in known]
    return list(dict.fromkeys([*map(_sentence, found), *check_changes(before, after)]))


def _key(fault: Fault) -> tuple[str, str, str]:
    """By what the same fault is known again in the other model."""
    kind, place = fault.kind, fault.place
    if kind in ("order", "circle"):
        return kind, place.words, ""
    if kind.endswith("twice"):
        return "twice", place.words, fault.name
    return kind.removeprefix("output "), place.root, fault.name


def _sentence(fault: Fault) -> str:
    name, words, root = fault.name, fault.place.words, fault.place.root
    node = fault.node.name or fault.node.op_type if fault.node is not None else ""
    return {
        "input twice": f"Tensor '{name}' is made twice in {words} (as input).",
        "initializer twice": f"Tensor '{name}' is made twice in {words} (as initializer).",
        "made twice": f"Tensor '{name}' is made twice in {words} (by two nodes, or by a node and as input).",
        "not made": f"Tensor '{name}' is used in {root} but nothing makes it.",
        "output not made": f"Tensor '{name}' is used in {root} but nothing makes it.",
        "domain": f"Node '{node}' in {words} uses domain '{name}', which {root} does not import.",
        "order": f"Tensor '{name}' is used in {words} before the node that makes it: nodes are out of order.",
        "circle": f"Tensor '{_first(fault)}' in {words} is computed from itself: the graph has a cycle.",
    }[fault.kind]


def _first(fault: Fault) -> str:
    """The tensor that is computed from itself."""
    return str(fault.around[0].output[0]) if fault.around else ""
