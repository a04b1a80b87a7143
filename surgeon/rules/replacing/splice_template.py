"""The common part of steps at equal sites, computed at the first of them.

Models repeat themselves, and so do edits: the second of twenty thousand equal sites differs from the first in names.
"""

from dataclasses import dataclass

from surgeon.ir.constants import CONSTANT_OPS
from surgeon.rules.matching.match import Match
from surgeon.rules.replacing.replacement import Replacement, ReplacementNode, TensorRef

NOTHING, OUTPUT = 0, 1  # positions of the absent tensor and of the output


@dataclass(frozen=True, slots=True)
class SpliceTemplate:
    """How one replacement is inserted at all sites of a match template, its tensors as positions in one list.

    The list holds the empty name, the output, the captures, and the inner tensors of the replacement.
    """

    captures: tuple[tuple[str, int], ...]
    """Keys of the captures."""
    inner: tuple[tuple[str, int], ...]
    """Producer's op and output index of each inner tensor."""
    nodes: tuple[tuple[ReplacementNode, tuple[int, ...], tuple[int, ...]], ...]
    """Each node with the positions of its inputs and outputs."""

    @classmethod
    def of(cls, match: Match, fragment: Replacement) -> "SpliceTemplate | None":
        """The template of a match; None if its steps may differ in more than names.

        The new nodes must read no constants, replace the producer of the only output, differ in op from the removed
        nodes, and import nothing.
        """
        ops = {node.op for node in match.nodes}
        (output, *others), made = fragment.outputs, fragment.nodes
        is_plain = not (others or fragment.constants or fragment.functions or match.kept or match.sizes)
        if not is_plain or output.kind != "inner":
            return None
        if any(node.qualified in ops or node.qualified in CONSTANT_OPS or node.holds_graphs for node in made):
            return None
        places = {TensorRef("empty"): NOTHING, output: OUTPUT}
        captures = dict.fromkeys(ref for node in made for ref in node.reads if ref.kind == "capture")
        inner = {ref: (node.op, place) for node in made for place, ref in enumerate(node.makes) if ref != output}
        for ref in (*captures, *inner):
            places[ref] = len(places)
        placed = places.__getitem__
        wired = ((node, tuple(map(placed, node.inputs)), tuple(map(placed, node.makes))) for node in made)
        return cls(tuple(ref.key for ref in captures), tuple(inner.values()), tuple(wired))
