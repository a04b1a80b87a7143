"""Writes a rule from a selection: the subgraph between two cuts of a model, generalised over similar subgraphs."""

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import onnx
from onnx import NodeProto

from surgeon.authoring.learning import learn
from surgeon.authoring.learning.codegen import identifier
from surgeon.authoring.learning.generalise import StructuresDiffer
from surgeon.authoring.learning.learn import LearnedOperation
from surgeon.authoring.learning.relaxation import count, loosened
from surgeon.authoring.learning.terms import Example
from surgeon.edits.selection import Selection
from surgeon.errors import ModelFileError, UsageError
from surgeon.file.model import Model
from surgeon.file.model_like import ModelLike, model_name, resolve_model
from surgeon.file.tensors.decoding import encode
from surgeon.ops.schemas.helper_names import snake_case
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.prune import initializer_names
from surgeon.pipeline.editing.subgraph import Subgraph, extract, subgraph_between
from surgeon.pipeline.rewriting.rewrite import find
from surgeon.pipeline.rewriting.rule_run import open_index
from surgeon.result_base import ResultBase
from surgeon.rules.rule import Rule
from surgeon.text import format_count

MAX_NODES = 1_000  # of a selection
MAX_SIMILAR_SITES = 8  # sites that a selection is compared with


@dataclass(frozen=True, slots=True)
class RelaxedCount:
    """The number of sites of a pattern with one literal replaced by a capture."""

    what: str
    """The literal and the helper that takes it."""
    sites: int
    """Sites that the relaxed pattern matches."""


@dataclass(frozen=True, slots=True)
class CapturedRule(ResultBase):
    """A rule file from a selection.

    Examples:
        >>> import surgeon
        >>> found = surgeon.capture("notebooks/models/tiny_distilbert.onnx", ["linear_4"], ["gelu"], "activation")
        >>> found.name, found.sites
        ('activation', 4)
    """

    name: str
    """The name of the rule."""
    text: str
    """The rule file: a pattern, and a rule whose replacement the author fills in.  It runs unchanged."""
    sites: int
    """Matches in the source model, the selection included."""
    compared: int
    """Other sites of the same structure that the pattern was generalised over."""
    fixed: tuple[str, ...] = ()
    """Literals that the pattern requires: numbers, lists and strings, each with the helper that takes it."""
    free: tuple[str, ...] = ()
    """Captures, each with its kind."""
    looser: tuple[RelaxedCount, ...] = ()
    """For each literal, the number of sites if it were a capture."""
    output: str = field(default="", repr=False)
    """The file that `surgeon capture` wrote, "" in Python."""

    @property
    def rule(self) -> Rule:
        """The rule that the text defines."""
        return learn.rule_of(self.text, self.name)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file.

        Args:
            path: where; nothing is overwritten.

        Raises:
            UsageError: something is there already.
            ModelFileError: it cannot be written.
        """
        try:
            with Path(path).open("x", encoding="utf-8") as file:
                file.write(self.text)
        except FileExistsError:
            raise UsageError(f"{path} already exists. Choose another file, or move it.") from None
        except OSError as error:
            raise ModelFileError(f"{path} cannot be written: {error.strerror}.") from None


def capture(
    source: ModelLike,
    froms: "Sequence[str] | Selection",
    tos: Sequence[str] = (),
    name: str = "captured",
) -> CapturedRule:
    """Write a rule whose pattern is the subgraph between two cuts of a model.

    Numbers and short lists are fixed, weights are captures, sizes are dynamic.  If the model has the same structure
    elsewhere, for example in other layers, values that differ there are captures too.

    Args:
        source: a path, or a model in memory: a ModelProto, gs.Graph, onnx_ir.Model or ONNXProgram.
        froms: as for `extract`.  In Python, also the selection of a view, for both cuts.
        tos: as for `extract`.
        name: name of the rule.

    Returns:
        The rule's file as text, and how often it matches.

    Raises:
        UsageError: a tensor does not exist, the cuts do not separate the model, or no pattern can match the subgraph.

    Examples:
        >>> import surgeon
        >>> found = surgeon.capture("notebooks/models/tiny_distilbert.onnx", ["linear_4"], ["gelu"], "activation")
        >>> found.text.splitlines()[11]
        '    return g.mul(x, 0.5, g.add(g.erf(g.div(x, 2**0.5)), 1.0))'
    """
    if identifier(snake_case(name)) != name:
        raise UsageError(f"Invalid rule name {name!r}. Use lower-case letters, digits and _, for example squared_relu.")
    if isinstance(froms, Selection):
        froms, tos = _cuts(froms)
    with Model.open(resolve_model(source)) as model:
        draft = ModelDraft(model)
        region = subgraph_between(draft, tuple(froms), tuple(tos))
        if not region.nodes:
            raise UsageError("No node is between the two cuts. Choose tensors that are further apart.")
        if len(region.nodes) > MAX_NODES:
            raise UsageError(
                f"{len(region.nodes):,} nodes are between the two cuts, too many for one pattern. Choose tensors "
                "that are closer together."
            )
        own = _example(model, region.froms, region.tos, "the selection")
        alike = [
            _example(model, cut_from, cut_to, f"what makes {cut_to[0]!r}")
            for cut_from, cut_to in islice(_alike(draft, region), MAX_SIMILAR_SITES)
        ]
    lesson, compared = _learned(own, alike, name)
    ends = " to ".join(", ".join(cut) or "the inputs" for cut in (region.froms, region.tos))
    source_name = Path(model_name(source, "a model")).name
    lesson.about.append(f"Captured from {source_name}, {ends}.")
    sites = sum(1 for _ in find(source, lesson.rule))
    lesson.about.append(
        f"It matches {format_count(sites, 'site')} there; {compared} others with the same structure were compared."
    )
    written = lesson.forms[0].source
    variants = list(loosened(written))
    with Model.open(resolve_model(source)) as model:
        index = open_index(model)
        looser = tuple(RelaxedCount(variant.what, count(index, variant.function)) for variant in variants)
    fixed, free = (tuple(item.what for item in variants), tuple(f"{kind} {one}" for one, kind in written.parameters))
    return CapturedRule(lesson.name, lesson.text(), sites, compared=compared, fixed=fixed, free=free, looser=looser)


def _cuts(selection: Selection) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The two cuts of a selection.  Raises UsageError if it is empty or outside the main graph."""
    if not selection:
        raise UsageError("Nothing is selected. Select nodes of the main graph, or set cuts before and after them.")
    if selection.scope:
        raise UsageError(f"The selection is in {selection.scope}, but rules can be captured only from the main graph.")
    return selection.froms, selection.tos


def _example(model: Model, froms: Sequence[str], tos: Sequence[str], label: str) -> Example:
    """The subgraph between two cuts, with its weights."""
    draft = ModelDraft(model)
    extract(draft, froms, tos)
    made = draft.patch().to_proto()
    for tensor, held in zip(made.graph.initializer, draft.graph.initializer, strict=True):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            tensor.CopyFrom(encode(draft.value(held), tensor.name))
    names = ["x"] if len(froms) == 1 else [identifier(snake_case(name.rpartition("/")[2])) for name in froms]
    return Example(made, label, names)


def _learned(own: Example, alike: Sequence[Example], name: str) -> tuple[LearnedOperation, int]:
    """The operation common to the selection and the other examples of its structure, and the number of those."""
    examples = [own]
    lesson = learn.learn([[own]], name)
    for other in alike:
        try:
            lesson = learn.learn([[*examples, other]], name)
        except StructuresDiffer:
            continue
        examples.append(other)
    return lesson, len(examples) - 1


def _alike(draft: ModelDraft, region: Subgraph) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Cuts around other subgraphs of the same ops and connections, in file order."""
    graph = draft.graph
    makers = {name: node for node in graph.node for name in node.output if name}
    inside = {id(graph.node[place]) for place in region.nodes}
    first, stored = makers[region.tos[0]], initializer_names(graph)
    for root in graph.node:
        if root is first or root.op_type != first.op_type or root.domain != first.domain:
            continue
        found = _Lockstep(makers, inside, region, stored).walk(first, root)
        if found is not None:
            yield found


class _Lockstep:
    """Walks a selection and a candidate in parallel."""

    def __init__(
        self, makers: dict[str, NodeProto], inside: set[int], region: Subgraph, stored: Collection[str]
    ) -> None:
        self._makers, self._inside, self._region, self._stored = makers, inside, region, stored
        self._names: dict[str, str] = {}

    def walk(self, node: NodeProto, other: NodeProto) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """The cuts of the candidate; None if its structure differs."""
        waiting = [(node, other)]
        seen: set[int] = set()
        while waiting:
            one, two = waiting.pop()
            if id(one) in seen:
                continue
            seen.add(id(one))
            if (one.op_type, one.domain, len(one.input)) != (two.op_type, two.domain, len(two.input)):
                return None
            for mine, theirs in (*zip(one.input, two.input, strict=True), *zip(one.output, two.output, strict=False)):
                is_one = (mine in self._stored) == (theirs in self._stored) and bool(mine) == bool(theirs)
                if not is_one or (mine not in self._stored and self._names.setdefault(mine, theirs) != theirs):
                    return None
            for mine, theirs in zip(one.input, two.input, strict=True):
                maker = self._makers.get(mine)
                if mine and mine not in self._region.froms and maker is not None and id(maker) in self._inside:
                    if theirs not in self._makers:
                        return None
                    waiting.append((maker, self._makers[theirs]))
        ends = (*self._region.froms, *self._region.tos)
        if len(seen) < len(self._inside) or any(name not in self._names for name in ends):
            return None
        cuts = [tuple(self._names[name] for name in cut) for cut in (self._region.froms, self._region.tos)]
        return cuts[0], cuts[1]
