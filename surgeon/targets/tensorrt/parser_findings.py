"""Findings for TensorRT: those of its parser if it is installed, else those of the tables.

The parser reports the nodes that it refuses; the tables have clearer reasons and remedies.  Only the tables count for
plugins, which the parser knows if their library is loaded, and for nodes that it takes for others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from surgeon.ir.scope import Node, Scope, split_op
from surgeon.ops.schemas import type_string
from surgeon.printed_commands import command
from surgeon.runtime.tensorrt.error_messages import (
    FIXED_RANK,
    NEEDS_BUILD_TIME_VALUE,
    NO_IMPORTER,
    UNSUPPORTED_IO_DTYPE,
    concerns_sizes,
)
from surgeon.runtime.tensorrt.library import installed
from surgeon.targets.check_context import CheckContext
from surgeon.targets.lint.dtype_conflicts import op_text
from surgeon.targets.lint.finding import CONSTANT, Kind, RuntimeResult, node_path
from surgeon.targets.tensorrt.documented_support import NETWORK_DTYPES, DocumentedIssue, TensorrtSupport
from surgeon.targets.tensorrt.size_advice import fix_of
from surgeon.targets.tensorrt.support_matrix import tensorrt_version

if TYPE_CHECKING:
    from surgeon.runtime.tensorrt.compatibility import CompatibilityReport, Incompatibility, Range
    from surgeon.runtime.tensorrt.parser_tasks import Dims, NodeOutputs

# What the parser takes and the builder has no kernel for, as its tables say: they stand until an engine is built.
OF_BUILDER = ("Attention",)
SIZES = "give valid sizes: --dim NAME=N, or --dim NAME=LEAST:BEST:LARGEST"
WITH_PLUGINS = "load the library of the plugin's creators (--custom-ops LIB), or use full TensorRT (--trt tensorrt)"
SILENCE = "to use TensorRT's own parser: pip install tensorrt-rtx"


def check_model(asked: CheckContext) -> None:
    """Report what TensorRT refuses in a model.  Raises ModelFileError if the weights cannot be read."""
    support = TensorrtSupport(asked)
    support.check()
    library = installed(asked.request.library) if asked.request.parse else None
    if library is None:
        silence = SILENCE if asked.request.parse else "its parser did not run"
        tables = f"checked against the tables in the TensorRT {tensorrt_version()} documentation"
        asked.diagnostics.runtime = RuntimeResult(silence=f"{tables}; {silence}")
        for complaint in support.issues:
            complaint.note(asked.diagnostics)
        support.note_sized()
        _note_ends(asked, support)
        return
    from surgeon.runtime.tensorrt.compatibility import CompatibilityCheck  # it brings what starts processes

    asked.index.model.check_data()
    request = asked.request
    nodes = _numbered(asked)
    numbers = {node: number for number, node in nodes.items()}
    apart = set() if request.plugins else support.plugins  # with their libraries the parser has them
    of_tables = {complaint.node for complaint in support.issues if _is_for_tables(complaint)} | apart

    def behind(number: int) -> "tuple[int, NodeOutputs] | None":
        node = _in_main(nodes[number])
        made = None if node is None else _outputs(asked, node)
        return None if node is None or made is None else (numbers[node], made)

    aside = dict(filter(None, (behind(numbers[node]) for node in of_tables)))
    asking = CompatibilityCheck(library, request.run_time, request.device, dims=request.dims, plugins=request.plugins)
    said = asking.run(asked.index.model, aside, behind)
    if not said.engine_bytes:
        of_tables |= {complaint.node for complaint in support.issues if _is_of_builder(complaint)}
    _merge(asked, support, said, nodes=nodes, of_tables=of_tables)
    end = said.stopped_because
    if request.device is not None and apart and not said.engine_bytes:
        ops = ", ".join(sorted({op_text(node) for node in apart}))
        end = end or f"no engine was built, because {library.title} does not have {ops}"
        asked.diagnostics.add("build", "", end, helps=[WITH_PLUGINS], stops=False)
    for objection in said.undetermined:
        node = nodes.get(-1 if objection.node is None else objection.node)
        if node is not None:
            reason = objection.reason
            asked.diagnostics.add("restriction", op_text(node), reason, at=node_path(node), node=node, stops=False)
    for objection in said.refused:
        sentence = f"it cannot be built for the usual sizes ({objection.reason})"
        helps = _commands(said.sizes) if said.engine_bytes else [SIZES]
        asked.diagnostics.add("build", "", sentence, helps=helps, stops=False)
    title = f"{library.title} {library.version}".strip()
    device = said.capability if said.engine_bytes else ""
    asked.diagnostics.runtime = RuntimeResult(
        title,
        "",
        said.layers,
        is_whole=said.is_whole,
        device=device,
        engine=said.engine_bytes,
        sizes=said.sizes,
        seconds=said.seconds,
        end=end,
    )


def _commands(sizes: Mapping[str, "Range"]) -> list[str]:
    """The commands that build a model for the sizes that were accepted, and that fix them in its file."""
    given = [
        f"{name}={best}" if least == largest else f"{name}={least}:{best}:{largest}"
        for name, (least, best, largest) in sizes.items()
    ]
    fixed = [f"{name}={best}" for name, (_, best, _) in sizes.items()]
    build = command("check", "IN", "--target", "tensorrt", "--build", *_dims(given))
    fix = command("edit", "IN", "OUT", *_dims(fixed))
    return [f"build it for these sizes: {build}", f"fix them in the file: {fix}"]


def _dims(given: list[str]) -> list[str]:
    return [word for one in given for word in ("--dim", one)]


def _is_for_tables(complaint: DocumentedIssue) -> bool:
    """Whether a finding of the tables counts even if the parser takes the node."""
    return complaint.kind == "plugin" or complaint.is_name_clash


def _is_of_builder(complaint: DocumentedIssue) -> bool:
    return complaint.kind == "restriction" and split_op(complaint.node.op)[1] in OF_BUILDER


def _numbered(asked: CheckContext) -> dict[int, Node]:
    """The nodes by the numbers under which TensorRT knows them: in the order of `nodes_of`."""
    scopes = asked.index.scopes
    roots = [scope for scope in scopes if scope.owner is None]
    bodies: dict[Node, list[Scope]] = {}
    for scope in scopes:
        if scope.owner is not None:
            bodies.setdefault(scope.owner, []).append(scope)

    def walk(scope: Scope) -> Iterator[Node]:
        for node in scope.nodes:
            yield node
            for body in bodies.get(node, ()):
                yield from walk(body)

    return dict(enumerate(node for scope in roots for node in walk(scope)))


def _in_main(node: Node) -> Node | None:
    """The node of the main graph whose bodies contain a node, or the node itself; None for one in a function."""
    while node.scope.owner is not None:
        node = node.scope.owner
    return None if node.scope.function is not None else node


def _outputs(asked: CheckContext, node: Node) -> "NodeOutputs | None":
    """The outputs of a node of the main graph: names, dtypes and dims; None if unknown."""
    made: list[tuple[str, int, Dims]] = []
    for name in filter(None, node.outputs):
        facts = asked.shapes.facts(node.scope, name)
        dtype = facts.dtype or asked.dtypes.dtype(node.scope, name)
        if (
            not dtype or type_string(dtype)[7:-1] not in NETWORK_DTYPES or facts.shape is None
        ):  # a network takes no such input
            return None
        made.append((name, dtype, [size if isinstance(size, int) else str(size) for size in facts.shape]))
    return made


def _merge(
    asked: CheckContext,
    support: TensorrtSupport,
    said: "CompatibilityReport",
    nodes: dict[int, Node],
    of_tables: set[Node],
) -> None:
    """Report the parser's faults, in the words of the tables if these have any."""
    faults, sizes, sized = said.faults, said.sizes, support.sized
    refused = {nodes[one.node]: one for one in faults if one.node in nodes}
    for complaint in support.issues:
        if complaint.node in of_tables or (complaint.stops and complaint.node in refused):
            complaint.note(asked.diagnostics)
    stopped = {complaint.node for complaint in support.issues if complaint.stops}
    advised = {complaint.node: complaint for complaint in support.issues if not complaint.stops}
    for node, fault in refused.items():
        if node in stopped or node in support.plugins:
            continue
        advice = advised.get(node) if fault.reason == NO_IMPORTER else None
        if advice is not None:  # the tables say which TensorRT reads it
            replace(advice, kind="kernel", stops=True).note(asked.diagnostics)
        else:
            kind: Kind = "build" if fault.stage == "build" else "restriction"
            helps = [fix_of(sized[node])] if node in sized else _helps(fault, sizes)
            asked.diagnostics.add(kind, op_text(node), fault.reason, at=node_path(node), node=node, helps=helps)
    support.note_sized(refused)
    unplaced = [fault for fault in faults if fault.node not in nodes]
    if unplaced:
        _note_ends(asked, support)
    for fault in unplaced:
        if fault.stage == "build":
            asked.diagnostics.add("build", "", fault.reason, helps=_helps(fault, sizes))
        elif fault.reason != UNSUPPORTED_IO_DTYPE or not support.io_issues:
            asked.diagnostics.add("load", "", fault.reason)


def _helps(fault: "Incompatibility", sizes: Mapping[str, "Range"]) -> list[str]:
    """Remedies for a refusal of the builder.  sizes: of the dynamic dims of the build."""
    if fault.stage != "build":
        return []
    if NEEDS_BUILD_TIME_VALUE in fault.reason:
        return [CONSTANT]
    ones = [f"{name}=1" for name, size in sizes.items() if set(size) == {1}]
    if FIXED_RANK in fault.reason and ones:
        return [f"fix the sizes of 1 in the file: {command('edit', 'IN', 'OUT', *_dims(ones))}"]
    return [SIZES] if sizes and concerns_sizes(fault.reason) else []


def _note_ends(asked: CheckContext, support: TensorrtSupport) -> None:
    for reason, together, helps in support.io_issues:
        asked.diagnostics.add("restriction", "", reason, helps=helps, together=together)
