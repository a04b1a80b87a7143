"""Whether the target can run a replacement, and could run the replaced nodes: by its kernels and its limits.

Unknown facts never block a rewrite: unknown dtypes, ops of domains without schemas, local functions.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from onnx import NodeProto

from surgeon.errors import UsageError
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, split_op
from surgeon.ops.schemas import history, infer_output_dtypes, is_meaningless, only_ort_knows, schema, variables
from surgeon.printed_commands import command
from surgeon.rules.matching.match import Match
from surgeon.rules.replacing.replacement import Replacement, TensorRef
from surgeon.rules.replacing.splicer import opset_to_import
from surgeon.rules.rule import Rule, RulePlan
from surgeon.runtime.provider_support import ProviderSupport
from surgeon.shapes.index_shapes import shapes_of
from surgeon.target_registry import Provider, provider, target_of
from surgeon.targets.target import Target
from surgeon.text import close_matches, join_all, join_first

if TYPE_CHECKING:
    from surgeon.targets.op_limits import NodeLimits

ANY_PROVIDER = "any"  # no provider in particular


class MissingKernel(NamedTuple):
    """A node that the provider cannot run."""

    op: str
    """Op type."""
    reason: str
    """Why the provider cannot run it, as a sentence."""
    opset: int | None = None
    """First opset at which the provider runs it; None if there is none."""


def resolve_provider(target: str, ep: str | None) -> str | None:
    """The execution provider: the given one, else the first of the target, else None.

    Raises UsageError for an unknown target or provider.
    """
    first = next((one.name for one in target_of(target).providers), None)
    if ep is None or ep == first:
        return first
    if ep == ANY_PROVIDER:
        return None
    if provider(ep) is not None:  # a target has it: no need to read its table
        return ep
    try:
        return ProviderSupport.of(ep).name
    except UsageError as error:
        raise UsageError(f"{str(error).rstrip('.')}, or {ANY_PROVIDER}.") from None


def missing_kernel(
    provider: str,
    nodes: Sequence[NodeProto],
    dtypes: Mapping[str, int | None],
    versions: Mapping[str, int],
    *,
    is_there: bool = False,
    among: Collection[Provider] | None = None,
) -> MissingKernel | None:
    """The first node, in order, that a provider cannot run.

    dtypes: by tensor name.  versions: opsets by domain.  is_there: accept any way to run the nodes, because they are in
    the model already or only have to load.  among: providers to suggest instead.
    """
    kernels = ProviderSupport.of(provider)
    known: dict[str, int | None] = dict(dtypes)
    for node in nodes:
        opset = versions.get(node.domain) or opset_to_import(node.domain, node.op_type)
        version = schema(node.domain, node.op_type, opset)
        if version is None:
            infer_output_dtypes(node, opset, known)  # a target may know the op
            continue
        types = variables(version, map(known.get, node.input), map(known.get, node.output))
        runs = is_there and kernels.runs(node.domain, node.op_type, opset, types)
        reason = "" if runs else kernels.missing_reason(node.domain, node.op_type, opset, dtypes=types, among=among)
        if reason:
            raised = kernels.next_supported_opset(node.domain, node.op_type, opset, types)
            return MissingKernel(node.op_type, reason, raised)
        infer_output_dtypes(node, opset, known)
    return None


def supported_before(provider: str, match: Match) -> bool:
    """Whether the provider can run the nodes of a match.  If it cannot, a rewrite loses nothing."""
    shapes = shapes_of(match.index)

    def runs(node: Node) -> bool:
        dtypes = {name: shapes.dtype(node.scope, name) for name in (*node.proto.input, *node.proto.output)}
        return missing_kernel(provider, [node.proto], dtypes, node.scope.versions, is_there=True) is None

    return all(map(runs, with_bodies(match.nodes)))


def is_supported_now(target: str, provider: str | None, limits: "NodeLimits | None", match: Match) -> bool:
    """Whether a target runs the nodes of a match unchanged; True if that is unknown."""
    reads, versions = target_of(target).reads, match.scope.versions
    if limits is not None and any(True for node in match.nodes for _ in limits.of(node)):
        return False
    if reads is not None:
        protos = [node.proto for node in match.nodes]
        return all(reads(one) and not only_ort_knows(one.domain, one.op_type, versions.get("", 1)) for one in protos)
    return provider is None or supported_before(provider, match)


def next_steps(target: str, index: Index) -> tuple[str, ...]:
    """The steps before a rewritten model runs on the target, one clause each."""
    wanted = target_of(target)
    steps = wanted.next_steps(index) if isinstance(wanted, Target) and wanted.next_steps is not None else ()
    return (*ignored_attributes(index), *ops_left(target, index), *steps)


def ignored_attributes(index: Index) -> Iterator[str]:
    """The attributes in the file that no version of their op has: rules ignore them.  A clause for each op and name."""
    found: dict[tuple[str, str], list[str]] = {}
    for node in (node for scope in index.scopes for node in scope.nodes):
        for item in node.proto.attribute:
            if is_meaningless(*split_op(node.op), item.name):
                found.setdefault((node.op, item.name), []).append(node.label)
    for (op, name), labels in found.items():
        near = close_matches(name, [one for version in history(*split_op(op)) for one in version.attributes])
        hint = f"; did you mean {join_all([*map(repr, near)], 'or')}?" if near else ""
        yield f"{op} has no attribute {name!r}, so rules ignore that of {join_first(labels, 3)}{hint}"


def ops_left(target: str, index: Index) -> Iterator[str]:
    """The advice for remaining ONNX Runtime ops that the target does not have, as a clause."""
    wanted = target_of(target)
    if wanted.reads is None:
        return
    own = [node for scope in index.scopes for node in scope.live_nodes() if split_op(node.op)[0] == "com.microsoft"]
    left = [node for node in own if not wanted.reads(node.proto)]
    if left:
        ops, at = (list(dict.fromkeys(found)) for found in zip(*((node.op, node.label) for node in left), strict=True))
        check = command("check", "OUT", "--target", target if isinstance(wanted, Target) else "onnx")
        stay, them = ("stay", "them") if len(ops) > 1 else ("stays", "it")
        where = f"{join_first(ops, 3)} {stay} at {join_first(at, 3)}"
        if isinstance(wanted, Target) and wanted.examine is not None:  # its runtime may read more than its tables list
            tables = f"the tables in the {wanted.title} {wanted.version} documentation"
            yield f"{where}, but {tables} do not list {them}; to ask its own parser, if installed: {check}"
        else:
            yield f"{where}, but {wanted.title} does not have {them}; list the remedies: {check}"


def limits_for(target: str, provider: str | None, index: Index) -> "NodeLimits | None":
    """The limits of a target and of one of its providers; None without any."""
    found = target_of(target)
    if not isinstance(found, Target) or not found.limits_on(provider):
        return None
    return found.limits_of(index, shapes_of(index), provider)


def violated_limit(limits: "NodeLimits", match: Match, fragment: Replacement) -> tuple[str, str] | None:
    """A limit that a node of a replacement violates, and the remedy; None if a node of the match also violates one.

    Shapes of tensors inside the replacement are unknown and never violate a limit.
    """
    if not any(node.qualified in limits for node in fragment.nodes):
        return None
    names = {str(TensorRef("capture", key)): match.tensor(key) for key in fragment.captures}
    makers: dict[str, Node] = {}
    for made, proto in zip(fragment.nodes, fragment.as_protos(), strict=True):
        inputs = tuple(names.get(name, name) for name in proto.input)
        node = Node(
            made.qualified, inputs, tuple(proto.output), scope=match.scope, slot=-1, encoded=proto.SerializeToString()
        )
        broken = next(iter(limits.of(node, makers=makers)), None)
        makers.update(dict.fromkeys(proto.output, node))
        if broken is not None:
            return None if any(any(limits.of(there)) for there in with_bodies(match.nodes)) else broken
    return None


def with_bodies(nodes: Iterable[Node]) -> Iterator[Node]:
    """Nodes, and all nodes in their bodies, because inlining a branch of an If writes some of these again."""
    for node in nodes:
        yield node
        for body in node.scope.bodies:
            if body.owner is node:
                yield from with_bodies(body.live_nodes())


def first_supported_opset(provider: str, rule: Rule, plan: RulePlan, match: Match) -> int | None:
    """The opset from which a form of the rule has kernels of the provider; None if there is none."""
    kernels, dtype = ProviderSupport.of(provider), shapes_of(match.index).dtype(match.scope, match.outputs[0])
    types = {} if dtype is None else {"T": dtype}
    for form in plan.newer:
        for compiled in (item for pattern in rule.recognised(form)[:1] for item in rule.compiled(pattern)[:1]):
            groups = [[split_op(op) for op in group] for group in compiled.written_ops.required]
            if all(any(kernels.allows(*op, form.opset, types) for op in group) for group in groups):
                return form.opset
    return None
