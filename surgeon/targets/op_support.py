"""Whether a target has each op of a model: in ONNX at its opset or as its own, as a kernel, and within limits."""

import re
from collections.abc import Callable, Sequence
from functools import partial

import onnx

from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.ops.schemas import Schema, check_node, history, knows_domain, only_ort_knows, operators, schema, variables
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.schemas.node_check import target_of_op
from surgeon.ops.traits.trait_lookup import TRAINING_HELP, traits_of
from surgeon.printed_commands import command, in_floats, placed, upgrade_to
from surgeon.runtime.provider_support import CPU, ProviderSupport
from surgeon.shapes.tensor_types import FLOATS
from surgeon.target_registry import BaseTarget
from surgeon.targets.check_context import CheckContext
from surgeon.targets.inspection.provenance import torch_op
from surgeon.targets.lint.dtype_conflicts import InferredDtypes, op_text
from surgeon.targets.lint.finding import DiagnosticCollector, node_path
from surgeon.text import close_matches, join_all

OTHER_FLOATS = FLOATS - {onnx.TensorProto.FLOAT}  # where these have no kernel, float32 may have one
CASTS = "cast its input to float32, and its output back"
# The dtypes that the tables of kernels speak of; of floats of 8 bits and integers of 4 they say nothing.
TABLED = frozenset((*range(1, 14), onnx.TensorProto.BFLOAT16))
_IS_TYPE = re.compile(r"The (?:input|output) '[^']*' of \S+ is ")
_IS_HALF = re.compile(r"The input '[^']*' of \S+ is tensor\((?:b?float16|double)\).*, but must be .*tensor\(float\)")
Key = tuple[str, str]


def examine(asked: CheckContext) -> None:
    """Report every node that the target does not have, or that breaks its limits: the default check."""
    Support(asked).check()


class Support:
    """The default checks of each node."""

    def __init__(self, asked: CheckContext) -> None:
        self.asked, self.target, self.provider = asked, asked.target, asked.provider
        self.index, self.dtypes, self.custom, self.found = asked.index, asked.dtypes, asked.user_ops, asked.diagnostics
        self.has_contrib = asked.provider is not None or "ort" in asked.target.runs  # the table of kernels covers it

    def check(self) -> None:
        """Report every node that the target does not have."""
        local = local_functions(self.index)
        for scope in self.index.scopes:
            for node in scope.nodes:
                if split_op(node.op) not in local:
                    self._check(scope, node)

    def _check(self, scope: Scope, node: Node) -> None:
        domain, name = split_op(node.op)
        opset = scope.versions.get(domain, 1)
        version = schema(domain, name, opset)
        own = target_of_op(domain, name)
        if own is self.target:
            if not check_schema(node, opset, self.dtypes, self.found):
                self._check_limits(node)
        elif not knows_domain(domain):
            self._no_mapping(node, own)
        elif version is None:
            report_missing_op(node, opset, self.found)
        elif not self.has_contrib and (domain == "com.microsoft" or only_ort_knows(domain, name, opset)):
            reason = "ONNX does not have this op of ONNX Runtime"
            self.found.add("mapping", op_text(node), reason, link="op", at=node_path(node), node=node)
        elif not check_schema(node, opset, self.dtypes, found=self.found, suits=partial(self._has_kernel, node)):
            self._check_kernel(node, version, opset)
            self._check_limits(node)
            self._check_training(scope, node)

    def _check_training(self, scope: Scope, node: Node) -> None:
        """Report a node in training mode, as dropout: its results are random."""
        slot = traits_of(node.op).control.training_slot
        name = "" if slot is None else "".join(node.inputs[slot : slot + 1])
        mode = self.index.constants.scalar(scope, name) if name else None
        if mode is not None and mode[0]:
            reason = "it generates random numbers, because training_mode is true"
            self.found.add(
                "advice", op_text(node), reason, at=node_path(node), node=node, helps=[TRAINING_HELP], stops=False
            )

    def _check_limits(self, node: Node) -> None:
        for reason, help_ in self.asked.limits.of(node):
            at, helps = node_path(node), [help_] if help_ else []
            self.found.add("restriction", op_text(node), reason, at=at, node=node, helps=helps)

    def _has_kernel(self, node: Node, opset: int) -> bool:
        """Whether the provider would run a node at another opset."""
        domain, name = split_op(node.op)
        version = schema(domain, name, opset)
        if self.provider is None or version is None:
            return True
        return ProviderSupport.of(self.provider).runs(domain, name, opset, self._types(node, version))

    def _types(self, node: Node, version: Schema) -> dict[str, int]:
        """The dtypes of a node's tensors by type variable, without those that tables of kernels do not list."""
        known = self.dtypes.node_dtypes(node)
        types = variables(version, map(known.get, node.inputs), map(known.get, node.outputs))
        return {variable: dtype for variable, dtype in types.items() if dtype in TABLED}

    def _no_mapping(self, node: Node, own: BaseTarget | None) -> None:
        """Report an op of a domain that the target lacks: another target's, a placeholder, or a library's."""
        if self.custom.supports(node, self.dtypes):
            return
        domain, _ = split_op(node.op)
        runtime, why = self.target.title, f"it is {own.own_word} of {own.title}" if own is not None else ""
        rule = command("rewrite", "IN", "OUT", "--rules", "FILE.py", *placed(self.target.name, self.asked.provider))
        helps = [f"replace it with a rule: {rule}"]
        helps.append(f"define it as a local function that uses only ops of {runtime}")
        if self.target.takes_libraries:
            helps.append("load a library of custom ops that has it: --custom-ops LIB")
        library = "no given library has it" if self.custom else f"no custom-op library for domain '{domain}' was given"
        library = "only surgeon runs its Python implementation" if self.custom.implements(node) else library
        reason = f"{runtime} does not have this op, and {library}"
        if not self.target.takes_libraries or why:
            reason = f"{why}, and {runtime} does not have it" if why else f"{runtime} has no domain {domain!r}"
        of = torch_op(node.proto) or ""  # one name, org.pytorch.aten::ATen, stands for many
        at = node_path(node)
        self.found.add("mapping", op_text(node), reason, link="mapping", at=at, node=node, helps=helps, of=of)

    def _check_kernel(self, node: Node, version: Schema, opset: int) -> None:
        if self.provider is None:
            return
        kernels, types = ProviderSupport.of(self.provider), self._types(node, version)
        domain, name = split_op(node.op)
        if kernels.runs(domain, name, opset, types):
            return
        has_cpu = any(one.name == CPU for one in self.target.providers) and self.provider != CPU
        runs_on_cpu = has_cpu and ProviderSupport.of(CPU).runs(domain, name, opset, types)
        has_any = kernels.runs(domain, name, opset, {})
        kinds = " and ".join(dict.fromkeys(dtype_name(dtype) for dtype in types.values())) if has_any else ""
        where = "" if kernels.title == self.target.title else f" on {kernels.title}"
        reason = f"{self.target.title} has no kernel for it{where}{f' in {kinds}' if kinds else ''}"
        if runs_on_cpu:
            reason += ", so it runs on the CPU"
        helps = []
        others = [one.name for one in kernels.others() if ProviderSupport.of(one.name).runs(domain, name, opset, types)]
        later = kernels.next_supported_opset(domain, name, opset, types)
        if later is not None:
            helps.append(raise_opset(node, later))
        if others and not runs_on_cpu:
            helps.append(f"use another execution provider: {', '.join(others)}")
        if has_any and not runs_on_cpu and OTHER_FLOATS.intersection(types.values()):
            helps.append(CASTS)
            if onnx.TensorProto.DOUBLE in types.values():
                helps.append(f"or convert the whole model to float32: {in_floats()}")
        self.found.add(
            "kernel",
            op_text(node),
            reason,
            link="kernel",
            at=node_path(node),
            node=node,
            helps=helps,
            stops=not runs_on_cpu,
        )


def local_functions(index: Index) -> dict[Key, onnx.FunctionProto]:
    """The functions that the model defines, by domain and name."""
    return {split_op(f"{one.domain}::{one.name}"): one for one in index.model.skeleton.functions}


def report_missing_op(node: Node, opset: int, found: DiagnosticCollector) -> None:
    """Report an op that its domain does not have, at this opset or at all."""
    domain, name = split_op(node.op)
    versions = history(domain, name)
    at = f"{domain or 'ai.onnx'} {opset}"
    if versions:
        since = versions[0].since_version
        reason = f"{at} does not have this op; opset {since} added it"
        helps = [raise_opset(node, since, is_missing=True)]
        found.add("opset", op_text(node), reason, link="op", at=node_path(node), node=node, helps=helps)
        return
    near = close_matches(name, operators(domain))
    helps = [f"did you mean {join_all(near, 'or')}?"] if near else []
    helps.append("define it as a local function in a custom domain")
    reason = f"{at} does not have this op"
    found.add("opset", op_text(node), reason, link="op", at=node_path(node), node=node, helps=helps)


def raise_opset(node: Node, opset: int, is_missing: bool = False) -> str:
    """How to raise the opset of ai.onnx in the scope of a node.

    is_missing: the op does not exist at the model's opset, so that an upgrade may change its meaning.
    """
    function = node.scope.function
    if function is not None:
        return (
            f"import ai.onnx {opset} or later in {function.label} and in the model "
            "(onnx.checker requires the same version in both)"
        )
    if is_missing:
        return f"export the model at opset {opset} or later; if it was written by hand, raise its opset_import"
    return f"raise the opset: {upgrade_to(opset)}"


def check_schema(
    node: Node, opset: int, dtypes: InferredDtypes, found: DiagnosticCollector, suits: Callable[[int], bool] = bool
) -> bool:
    """Report how a node breaks its schema; return whether it does.  Conflicts of dtypes are reported elsewhere.

    suits: whether the target would run the node at another opset, at which it is valid.
    """
    known = {} if node in dtypes.clashing else dtypes.node_dtypes(node)
    in_function = node.scope.function is not None
    complaints = check_node(node.proto, opset, known.get, in_function)
    if not complaints:
        return False
    domain, name = split_op(node.op)
    later = [one.since_version for one in history(domain, name) if one.since_version > opset] if not domain else []
    fits = (number for number in later if not check_node(node.proto, number, known.get, in_function) and suits(number))
    helps = [raise_opset(node, number) for number in fits][:1]
    if any(_IS_HALF.match(text) for text in complaints):
        helps.append(CASTS)
    for complaint in _first_of_types(complaints):
        found.add("schema", op_text(node), complaint.rstrip("."), at=node_path(node), node=node, helps=helps)
    return True


def _first_of_types(complaints: Sequence[str]) -> list[str]:
    """Complaints without those on output types if an input has a wrong one, from which they follow."""
    has_input = any(_IS_TYPE.match(text) and text.startswith("The input") for text in complaints)
    return [text for text in complaints if not (has_input and _IS_TYPE.match(text) and text.startswith("The output"))]
