"""Whether the execution provider that a model is for has kernels for what a rule writes, and had for what it replaces.

What is not known never stands in the way: dtypes that nothing tells, ops of domains without schemas, local functions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnx import NodeProto

from surgeon.edit.splice import import_version
from surgeon.indexing.scope import split_op
from surgeon.matching.match import Match
from surgeon.ops.schemas import learn_dtypes, schema
from surgeon.rules.rule import Plan, Rule
from surgeon.running.kernels import CPU, TITLES, Kernels, variables

ANY_PROVIDER = "any"  # ask none
PROVIDERS = {"ort": CPU, "contrib": CPU, "tensorrt": "tensorrt"}  # by target, where it says what runs the model


@dataclass(frozen=True, slots=True)
class NoKernel:
    """A node that the provider cannot run.  told: the sentence; opset: from where on it could, None if it never can."""

    op: str
    told: str
    opset: int | None = None


def provider_of(target: str, ep: str | None) -> str | None:
    """The execution provider to ask: the one named, else that which the target says, else none.

    Raises UsageError for one that is not known.
    """
    if ep is None:
        return PROVIDERS.get(target)
    if ep == ANY_PROVIDER:
        return None
    return ep if ep in TITLES else Kernels.of(ep).name


def lacking_kernel(
    provider: str,
    nodes: Sequence[NodeProto],
    dtypes: Mapping[str, int | None],
    versions: Mapping[str, int],
    *,
    is_there: bool = False,
) -> NoKernel | None:
    """The first of nodes, in order, that a provider cannot run.  dtypes: of tensors, by name; versions: by domain.

    is_there: the model has them already, so that whatever runs them will do.
    """
    kernels = Kernels.of(provider)
    known: dict[str, int | None] = dict(dtypes)
    for node in nodes:
        opset = versions.get(node.domain) or import_version(node.domain, node.op_type)
        version = schema(node.domain, node.op_type, opset)
        if version is None:
            continue
        types = variables(version, map(known.get, node.input), map(known.get, node.output))
        runs = is_there and kernels.runs(node.domain, node.op_type, opset, types)
        told = "" if runs else kernels.missing(node.domain, node.op_type, opset, types)
        if told:
            raised = kernels.raised(node.domain, node.op_type, opset, types)
            return NoKernel(node.op_type, told, raised)
        learn_dtypes(node, opset, known)
    return None


def had_kernels(provider: str, match: Match) -> bool:
    """Whether the provider can run the nodes that a match found; where it cannot, a rewrite takes nothing away."""
    types, scope = match.index.types, match.scope
    nodes = [node.proto for node in match.nodes]
    names = {name for node in nodes for name in (*node.input, *node.output)}
    dtypes = {name: types.dtype(scope, name) for name in names}
    return lacking_kernel(provider, nodes, dtypes, scope.versions, is_there=True) is None


def later_opset(provider: str, rule: Rule, plan: Plan, match: Match) -> int | None:
    """The opset with which a form of the rule comes that the provider has kernels for, None if there is none."""
    kernels, dtype = Kernels.of(provider), match.index.types.dtype(match.scope, match.outputs[0])
    types = {} if dtype is None else {"T": dtype}
    for form in plan.newer:
        for compiled in rule.compiled(form.pattern)[:1] if form.pattern is not None else ():
            groups = [[split_op(op) for op in group] for group in compiled.spelling.required]
            if all(any(kernels.suits(*op, form.opset, types) for op in group) for group in groups):
                return form.opset
    return None
