"""Merges two models into one: outputs of the first feed inputs of the second."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import onnx

from surgeon.edits.merge_split.chain_check import ChainLink, check_chain
from surgeon.edits.merge_split.join_graphs import JoinResult, join
from surgeon.errors import GraphError, UsageError
from surgeon.file.model import Model
from surgeon.file.model_like import ModelLike, is_in_memory, is_proto, model_name, opened_to_run, returned
from surgeon.file.save import ExternalDataMode, OutputModel
from surgeon.ops.schemas import schema
from surgeon.ops.traversal import function_key, imports_of, node_label, nodes_of
from surgeon.pipeline.checks import Checks, Saving
from surgeon.pipeline.driver import run
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.prune import FIRST_IR_WITH_DEFAULTS
from surgeon.pipeline.reports.edit_report import AppliedEdit, EditReport
from surgeon.pipeline.snapshot import Snapshot
from surgeon.pipeline.transform import Claim, Words
from surgeon.pipeline.upgrading.upgrade import require_opset, upgrade_skeleton
from surgeon.proof.check_options import CheckOptions, require_output
from surgeon.proof.check_result import CheckResult
from surgeon.result_base import ModelAndReport, json_of
from surgeon.shapes.constraints.input_dims import required_inputs
from surgeon.text import join_first

MERGE_CHECKS = ("model", "none")
NAMED = 4  # in a sentence


@dataclass(frozen=True, slots=True)
class Merging:
    """The arguments of a merge."""

    first: str
    """Path of the model that runs first; empty if it was in memory."""
    second: str
    """Path of the model that runs second; empty if it was in memory."""
    connect: Mapping[str, str] = field(default_factory=dict)
    """By input of the second model, the output or input of the first that feeds it."""
    prefix: tuple[str, str] = ("", "")
    """Prefix of all names of (first, second)."""
    flag: ClassVar[str] = "merge"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return json_of(self, "first second connect prefix")


def merge(
    first: ModelLike,
    second: ModelLike,
    *,
    connect: Mapping[str, str | Sequence[str]] | None = None,
    prefix: tuple[str, str] = ("", ""),
    output: str | os.PathLike[str] | None = None,
    check: Literal["model", "none"] = "model",
    require_proof: bool = False,
    dry_run: bool = False,
    external_data: ExternalDataMode = "auto",
    force: bool = False,
    options: CheckOptions | None = None,
) -> tuple[Any, EditReport]:
    """Connect two models into one, and prove that it computes what the two compute one after the other.

    Outputs of the first model that feed the second are no longer outputs.  If both models have the same name, size or
    local function, that of the second gets a number as suffix.  The lower opset is raised if no node changes its
    meaning.  Weights are copied from file to file, with the data files of both models.

    Args:
        first: the model that runs first: a path, or a model in memory.
        second: the model that runs second, likewise.
        connect: by output of the first model, the input or inputs of the second that it feeds; by input of the first,
            the input of the second that shares its value.  None connects outputs and inputs with the same name.
        prefix: prefixes of all names of the first and of the second model.
        output: the path to write, if one of the models is a path.
        check: "model" compares the merged model with the two models, run one after the other; "none" runs nothing.
        require_proof: treat an unproved result as a failed one.
        dry_run: report the changes, but write nothing.
        external_data: how data files are written: "auto", "share", "copy", "inline", or a file: "weights/m.data".
        force: overwrite data files even if their contents differ.
        options: seeds, sizes, tolerances and limits of the check.

    Returns:
        The path written, or a model if both models were in memory (a gs.Graph if one of them was), and an EditReport.

    Raises:
        UsageError: an output or input does not exist, or a connection does not fit.
        GraphError: a node would change its meaning at the opset of the other model.
        CheckFailed: the merged model differs from the two models; nothing is written.

    Examples:
        >>> import surgeon
        >>> parts, _ = surgeon.split("notebooks/models/tiny_distilbert.onnx", "parts", at=["gelu"])
        >>> _, report = surgeon.merge(*parts, output="whole.onnx")
        >>> report.outcome
        'proved'
    """
    checks = Checks.named(check, MERGE_CHECKS, require_proof, options, dry_run=dry_run)
    if not isinstance(prefix, (tuple, list)) or len(prefix) != 2 or not all(isinstance(one, str) for one in prefix):
        raise UsageError("prefix needs two prefixes, one for each model. Either may be empty.")
    require_output(is_in_memory(first) and is_in_memory(second), output, dry_run)
    if connect is not None and not _is_connection(connect):
        raise UsageError(f"connect must map outputs to inputs, for example {{'y': 'x'}}, not {connect!r}.")
    report = EditReport("", "", by_structure=False, other="it was merged from two models")
    with opened_to_run(second) as (opened, original):
        request = Merging(model_name(first), model_name(second), {}, prefix)
        change = Merge(request, opened, original, report=report, connect=connect, output=output)
        made, _ = run(first, [change], checks, Saving(output, external_data, force))
        if isinstance(made, onnx.ModelProto) and is_proto(first):
            made = returned(second, made, change.second.held)
    return ModelAndReport((None if dry_run else made, report))


@dataclass(frozen=True, slots=True)
class Merge:
    """Connect a model to the outputs of the model under change."""

    request: Merging
    """The arguments of the merge."""
    second: Model
    """The model that runs second; it must stay open as long as the run."""
    original: Callable[[], OutputModel]
    """Returns the same as a path or a proto."""
    report: EditReport
    """Report, which is updated."""
    connect: Mapping[str, str | Sequence[str]] | None = None
    """By output of the first, the inputs of the second that it feeds; None to connect those of the same name."""
    output: str | os.PathLike[str] | None = None
    """Path of the result, whose folder may already contain data files."""

    def apply(self, draft: ModelDraft, checks: Checks) -> Claim:
        """Join the models, and claim that the result computes what the two compute one after the other."""
        models, behind = [draft.before, self.second], ModelDraft(self.second)
        by_input = _connected(models, self.connect)
        said = _raise_opsets(models, (draft, behind))
        draft.index, behind.index  # noqa: B018  # raises for an invalid model
        beside = None if self.output is None else Path(os.path.abspath(self.output))
        joined = join(draft, draft.adopt(behind, beside), by_input, self.request.prefix)
        draft.index  # noqa: B018  # raises for an invalid result
        outputs = {value.name for value in models[0].skeleton.graph.output}
        connected = (_connection_text(name, source, source in outputs) for name, source in by_input.items())
        request = replace(self.request, connect=by_input)
        self.report.edits.append(AppliedEdit(request, (*connected, *said, *joined.messages)))
        self.report.skeletons = models[0].skeleton, draft.skeleton
        self.report.nodes = len(models[0].skeleton.graph.node), len(draft.graph.node)
        if checks.dry_run:
            self.second.check_data()

        def relation(before: Snapshot, made: OutputModel, options: CheckOptions) -> CheckResult:
            for model in models:
                model.check_data(sums=True)
            links = _links(models, (before.runnable(), self.original()), joined)
            return check_chain(made, draft.skeleton, links, options=options, reworded=_of_merged)

        words = Words.of("merged", "the two")
        originals = [self.original]
        return Claim(self.report, words, relation, confirm=self.second.check_unchanged, originals=originals)


def _is_connection(connect: object) -> bool:
    """Whether it maps outputs to an input or several."""
    if not isinstance(connect, Mapping):
        return False
    fed = [[one] if isinstance(one, str) else one for one in connect.values()]
    lists = all(isinstance(one, (list, tuple)) for one in fed)
    return lists and all(isinstance(name, str) for names in ([*connect], *fed) for name in names)


def _connection_text(name: str, source: str, is_output: bool) -> str:
    """A clause on what feeds an input of the second model."""
    if is_output:
        same = f"the output {source!r} of the first model feeds the input of that name"
        return same if name == source else f"{source!r} feeds {name!r}"
    other = "that" if name == source else repr(name)
    return f"the input {source!r} of the first model is also {other} of the second"


def _of_merged(reason: str) -> str:
    """A reason about the original, reworded for the merged model."""
    return reason.replace("The original", "The merged model").replace("the original", "the merged model")


def _connected(models: Sequence[Model], connect: Mapping[str, str | Sequence[str]] | None) -> dict[str, str]:
    """By input of the second model, the output of the first that feeds it, or the input that both share.

    By default, outputs and inputs of the same name are connected, and if there are any, inputs of the same name and
    type are shared.  Raises UsageError if nothing is connected, or an input twice.
    """
    first, second = (model.skeleton.graph for model in models)
    ends, starts = [value.name for value in first.output], required_inputs(second)
    names = list(starts)
    pairs = [(name, name) for name in names if name in ends] if connect is None else []
    if pairs:
        own = required_inputs(first)
        both = [name for name in names if name not in ends and name in own and _may_be_one(starts[name], own[name])]
        pairs += [(name, name) for name in both]
    for source, fed in (connect or {}).items():
        pairs += [(name, source) for name in ([fed] if isinstance(fed, str) else fed)]
    if not pairs:
        raise UsageError(
            f"No output of the first model ({join_first(ends, NAMED)}) has the name of an input of the second "
            f"({join_first(names, NAMED)}). Give the connections, for example --connect boxes=images"
        )
    twice = next((name for name, _ in pairs if [other for other, _ in pairs].count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"The input {twice!r} of the second model is connected twice. Only one output can feed it.")
    return dict(pairs)


def _may_be_one(value: onnx.ValueInfoProto, other: onnx.ValueInfoProto) -> bool:
    """Whether two inputs have the same dtype and rank, and no different fixed sizes."""
    if value.type.WhichOneof("value") != "tensor_type" or other.type.WhichOneof("value") != "tensor_type":
        return False
    one, two = value.type.tensor_type, other.type.tensor_type
    if one.elem_type != two.elem_type or len(one.shape.dim) != len(two.shape.dim):
        return False
    fixed = ((a.dim_value, b.dim_value) for a, b in zip(one.shape.dim, two.shape.dim, strict=True))
    return all(size == beside or 0 in (size, beside) for size, beside in fixed)


def _raise_opsets(models: Sequence[Model], drafts: Sequence[ModelDraft]) -> list[str]:
    """Raise the draft of lower opset to that of the other; raises GraphError if a node would change its meaning."""
    imports = [imports_of(model.skeleton.opset_import) for model in models]
    for domain in imports[0].keys() & imports[1].keys() - {""}:
        _require_same_meaning(models, domain, imports[0][domain], imports[1][domain])
    said = []
    opset = max((known[""] for known in imports if "" in known), default=0)
    for draft, known, which in zip(drafts, imports, ("first", "second"), strict=True):
        if known.get("", opset) < opset:
            require_opset(opset)
            upgrade_skeleton(draft, opset, str(draft.path or "the model"))
            draft.changed()
            said.append(f"the {which} model is raised from opset {known['']} to {opset}")
    return said


def _require_same_meaning(models: Sequence[Model], domain: str, first: int, second: int) -> None:
    """Raise GraphError if ops of a domain may have different meanings in its two imported versions."""
    if first == second:
        return
    lower = models[0] if first < second else models[1]
    functions = {function_key(function)[:2] for function in lower.skeleton.functions}
    changed = []
    for node in nodes_of(lower.skeleton):
        if node.domain == domain and (domain, node.op_type) not in functions:
            versions = [schema(domain, node.op_type, version) for version in (first, second)]
            since = {None if version is None else version.since_version for version in versions}
            if len(since) > 1 or None in since:
                changed.append(f"{node.op_type} at {node_label(node)!r}")
    if changed:
        raise GraphError(
            f"The models import versions {first} and {second} of {domain}, and {join_first(changed, NAMED)} may have "
            "different meanings in them. Export both models with the same version."
        )


def _links(models: Sequence[Model], sources: Sequence[OutputModel], joined: JoinResult) -> list[ChainLink]:
    """The two original models, with the names of their inputs and outputs in the merged one."""
    links = []
    for place, new in enumerate((joined.first_renames, joined.second_renames)):
        graph = models[place].skeleton.graph
        ends = [{value.name: new.get(value.name, value.name) for value in side} for side in (graph.input, graph.output)]
        wanted = required_inputs(graph)
        stored = [value.name for value in graph.input if value.name not in wanted]
        kinds = (stored, ()) if models[place].skeleton.ir_version >= FIRST_IR_WITH_DEFAULTS else ((), stored)
        links.append(ChainLink(f"the {('first', 'second')[place]} model", sources[place], *ends, *kinds))
    return links
