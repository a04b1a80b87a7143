"""Whether TensorRT has each op of a model, by the order in which its parser searches them.

It uses the name of an op and not its domain: first the ops of ONNX that it reads, then local functions, then plugins.
A node with the attribute `plugin_namespace` is always a plugin.
"""

from collections.abc import Collection
from dataclasses import dataclass

from onnx import GraphProto, NodeProto, TensorProto

from surgeon.ir.scope import Node, split_op
from surgeon.ops.plugins.builtin_plugins import DOMAINS, NAMESPACE, advice, check_plugin, plugin_of, plugins
from surgeon.ops.plugins.plugin_declaration import own_plugins
from surgeon.ops.schemas import knows_domain, schema, type_string
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.schemas.op_schema import history, operators
from surgeon.printed_commands import command
from surgeon.targets.check_context import CheckContext
from surgeon.targets.lint.dtype_conflicts import op_text
from surgeon.targets.lint.finding import FOR_ALL, FOR_THIS, DiagnosticCollector, Kind, SupportLink, node_path
from surgeon.targets.lint.size_dependent_branches import sized_ifs
from surgeon.targets.op_support import check_schema, local_functions, report_missing_op
from surgeon.targets.tensorrt.mixed_precision import note_precision
from surgeon.targets.tensorrt.parser_limits import EXEMPT
from surgeon.targets.tensorrt.size_advice import fix_of, reason_of
from surgeon.targets.tensorrt.support_matrix import (
    CONTRIB_EQUIVALENTS,
    TensorrtOp,
    rtx_version,
    tensorrt_ops,
    tensorrt_version,
)
from surgeon.targets.tensorrt.unsupported_ops import UNSUPPORTED_BY_RTX, reason_and_workarounds
from surgeon.text import close_matches

# What a tensor in TensorRT may be.  float64 is read as float32, and uint8 is allowed only for inputs and outputs.
NETWORK_DTYPES = frozenset(
    ("float", "double", "float16", "bfloat16", "float8e4m3fn", "float4e2m1", "int64", "int32", "int8", "int4", "uint8")
).union(("bool",))
MICROSOFT = "com.microsoft"
FUNCTION = "define it as a local function that uses only ops of TensorRT"
_TENSORRT = ("--target", "tensorrt")
ORIGINAL = f"{FOR_ALL} for TensorRT: {command('rewrite', 'ORIGINAL', 'OUT', '--rules', 'tensorrt', *_TENSORRT)}"
LOWERED = f"{FOR_THIS} for TensorRT: {command('rewrite', 'IN', 'OUT', *_TENSORRT)}"
DECLARED = f"declare the plugin in plugins.toml: {command('check', 'IN', *_TENSORRT, '--custom-ops', 'plugins.toml')}"
JUDGED = ("float", "float16", "bfloat16", "int32", "int64", "bool", "uint8")


def is_supported(node: NodeProto) -> bool:
    """Whether TensorRT has a plugin of a node's name, or an op of this name with the same meaning."""
    listed, plugin = tensorrt_ops().get(node.op_type), plugin_of(node)
    if node.domain != MICROSOFT and plugin is not None and not plugin.removed:
        return True
    return listed is not None and listed.supported and _means_it(node.domain, node.op_type)


def _means_it(domain: str, name: str) -> bool:
    """Whether an op means the same as the op of ONNX of its name, as which TensorRT reads it."""
    return not domain or (domain == MICROSOFT and name in CONTRIB_EQUIVALENTS)


def _of_placeholder(node: Node) -> tuple[str, ...]:
    """Remedies for an op that needs a plugin, a rule or a function."""
    rule = command("rewrite", "IN", "OUT", "--rules", "FILE.py", *_TENSORRT)
    plugin = command("rewrite", "IN", "OUT", *_TENSORRT, "--plugin", f"{node.op}=PLUGIN")
    return (f"replace it with a plugin: {plugin}", f"replace it with a rule: {rule}", FUNCTION)


@dataclass(frozen=True, slots=True)
class DocumentedIssue:
    """A limit in the documentation that a node breaks; see `Diagnostic`."""

    kind: Kind
    """Kind of the diagnostic."""
    node: Node
    """The node."""
    reason: str
    """The problem, as a clause."""
    link: SupportLink
    """The missing link."""
    helps: tuple[str, ...]
    """Remedies, best first, a clause each."""
    stops: bool
    """Whether TensorRT does not run the model because of it."""
    is_name_clash: bool
    """Whether the parser reads the node as another op."""

    def note(self, found: DiagnosticCollector) -> None:
        """Add it to the findings."""
        found.add(
            self.kind,
            op_text(self.node),
            self.reason,
            link=self.link,
            at=node_path(self.node),
            node=self.node,
            helps=self.helps,
            stops=self.stops,
        )


class TensorrtSupport:
    """Checks of each node for TensorRT.

    found: violations of ONNX.  issues: nodes that TensorRT refuses.  plugins: nodes for a plugin.  io_issues:
    faults of an input, an output or a weight, the reason for several, and remedies.  sized: Ifs that TensorRT builds
    if further sizes are fixed.
    """

    def __init__(self, asked: CheckContext) -> None:
        self.index, self.dtypes, self.limits, self.found = asked.index, asked.dtypes, asked.limits, asked.diagnostics
        self.issues: list[DocumentedIssue] = []
        self.plugins: set[Node] = set()
        self.io_issues: list[tuple[str, str, tuple[str, ...]]] = []
        fixed = {name for name, (least, _, largest) in asked.request.dims.items() if least == largest}
        self.sized = {found.node: found for found in sized_ifs(asked.index) if not fixed.issuperset(found.dims)}

    def check(self) -> None:
        """Collect what TensorRT does not read according to its documentation."""
        self._check_ends()
        self._check_nodes()
        note_precision(self.index, self.dtypes, self.found)

    def note_sized(self, refused: Collection[Node] = ()) -> None:
        """Report each If that depends on sizes.  refused: those that have a finding already."""
        for node, found in self.sized.items():
            if node not in refused:
                reason, helps = reason_of(found), [fix_of(found)]
                self.found.add("advice", op_text(node), reason, at=node_path(node), node=node, helps=helps, stops=False)

    def _check_ends(self) -> None:
        """Report inputs, outputs and weights of the network of dtypes that TensorRT lacks."""
        graph = self.index.main.proto
        given = [tensor.name for tensor in graph.initializer] if isinstance(graph, GraphProto) else []
        ends = [("input", value) for value in graph.input if value.name not in given]
        for word, value in (*ends, *(("output", value) for value in graph.output)):
            which = value.type.WhichOneof("value")
            if which == "tensor_type":
                self._check_end(word, value.name, value.type.tensor_type.elem_type)
            elif which is not None:  # what has no type at all is noted for every target
                kind = which.removesuffix("_type").replace("_", " ")
                self._tell_end(word, value.name, f"of type {kind}, but TensorRT supports only tensors")
        for tensor in graph.initializer:
            self._check_end("initializer", tensor.name, tensor.data_type)

    def _check_end(self, what: str, name: str, dtype: int) -> None:
        kind = type_string(dtype)[7:-1] if dtype else ""
        if kind and kind not in NETWORK_DTYPES:
            self._tell_end(what, name, f"{kind}, which TensorRT does not support", "use another dtype")

    def _tell_end(self, what: str, name: str, why: str, *helps: str) -> None:
        self.io_issues.append((f"the {what} '{name}' is {why}", f"{what}s are {why}", helps))

    def _check_nodes(self) -> None:
        """Collect the nodes that TensorRT does not read according to its documentation."""
        local = local_functions(self.index)
        for scope in self.index.scopes:
            for node in scope.nodes:
                domain, name = split_op(node.op)
                listed = tensorrt_ops().get(name)
                if plugin_of(node.proto) is not None and node.attribute(NAMESPACE) is not None:
                    self._check_plugin(node)
                elif listed is not None and listed.supported and not self._is_mistaken(node, local):
                    self._check_op(node, listed)
                elif (domain, name) in local:
                    self._check_call(node, len(local[domain, name].input))
                elif listed is not None and listed.supported:
                    continue  # reported as mistaken
                elif name in plugins():
                    self._check_plugin(node)
                else:
                    self._tell_missing(node, listed)

    def _note(
        self,
        kind: Kind,
        node: Node,
        reason: str,
        *helps: str,
        link: SupportLink = "",
        stops: bool = True,
        is_mistaken: bool = False,
    ) -> None:
        self.issues.append(
            DocumentedIssue(kind, node, reason, link=link, helps=helps, stops=stops, is_name_clash=is_mistaken)
        )

    def _is_mistaken(self, node: Node, local: object) -> bool:
        """Report a node that TensorRT would take for the op of ONNX of the same name."""
        domain, name = split_op(node.op)
        if _means_it(domain, name):
            return False
        what = "a function of the model" if isinstance(local, dict) and (domain, name) in local else "another op"
        reason = f"TensorRT ignores the domain and reads it as ai.onnx::{name}, but it is {what}"
        helps = (*(LOWERED,) * (domain == MICROSOFT), f"give it another name than {name}")
        self._note("restriction", node, reason, *helps, is_mistaken=True)
        return True

    def _check_call(self, node: Node, inputs: int) -> None:
        if len(node.inputs) != inputs:
            reason = f"the function has {inputs} inputs, but the call gives {len(node.inputs)}; TensorRT requires all"
            self._note("restriction", node, reason, "give all inputs of the function, or inline it")

    def _check_plugin(self, node: Node) -> None:
        self.plugins.add(node)
        known = self.dtypes.node_dtypes(node)
        for complaint in check_plugin(node.proto, known.get, node.scope.function is not None):
            self._note("plugin", node, complaint.rstrip("."))
        hint = advice(node.proto)
        if hint:
            self._note("advice", node, hint.rstrip("."), stops=False)

    def _tell_missing(self, node: Node, listed: TensorrtOp | None) -> None:
        domain, name = split_op(node.op)
        opset = node.scope.versions.get(domain, 1)
        if domain in DOMAINS or not (domain or history("", name) or close_matches(name, operators(""))):
            own, reason = ", ".join(one.name for one in own_plugins()), "TensorRT has no built-in plugin of this name"
            declared = f"correct the name in the file or in the model; declared are: {own}"
            self._note("plugin", node, reason, declared if own else DECLARED)
            return
        if not knows_domain(domain):
            reason = "TensorRT has no op and no plugin with this name"
            self._note("mapping", node, reason, *_of_placeholder(node), link="mapping")
            return
        if schema(domain, name, opset) is None:
            report_missing_op(node, opset, self.found)
            return
        why, more = reason_and_workarounds(domain, name)
        reason = f"TensorRT {tensorrt_version()} does not support it"
        if listed is None and not domain:
            reason = f"TensorRT's documentation ({tensorrt_version()}) does not mention it"
        helps = (LOWERED, ORIGINAL) if domain == MICROSOFT else (*more, FUNCTION)
        self._note("kernel", node, f"{reason}: {why}" if why else reason, *helps, link="kernel")

    def _check_op(self, node: Node, listed: TensorrtOp) -> None:
        domain, name = split_op(node.op)
        opset = node.scope.versions.get(domain, 1)
        if schema(domain, name, opset) is None:
            report_missing_op(node, opset, self.found)
            return
        if check_schema(node, opset, self.dtypes, self.found):
            return
        if not listed.rtx:
            reason = f"TensorRT-RTX {rtx_version()} does not support it, but TensorRT does"
            self._note("advice", node, reason, *UNSUPPORTED_BY_RTX.get(name, ()), stops=False)
        for reason, help_ in self.limits.of(node) if node not in self.sized else ():
            self._note("restriction", node, reason, *filter(None, [help_]))
        self._check_types(node, listed)

    def _check_types(self, node: Node, listed: TensorrtOp) -> None:
        name = split_op(node.op)[1]
        data = "" if not node.inputs or name in EXEMPT else node.inputs[1 if name == "Where" else 0]
        dtype = self.dtypes.dtype(node.scope, data)
        shown = type_string(dtype)[7:-1] if dtype else ""
        if shown in JUDGED and shown not in listed.types:
            types = ", ".join(
                dtype_name(getattr(TensorProto, _ENUM.get(one, one.upper()))) for one in sorted(listed.types)
            )
            reason = f"TensorRT supports it only in {types}, but its data is {dtype_name(dtype or 0)}"
            self._note("restriction", node, reason, "cast its input and output")
        outputs = {value.name for value in self.index.main.proto.output}
        for output in filter(None, node.outputs):
            made = self.dtypes.dtype(node.scope, output)
            kind = type_string(made)[7:-1] if made else ""
            if kind and kind not in NETWORK_DTYPES:
                self._note("restriction", node, f"TensorRT does not support {kind} tensors", "cast to another type")
            elif kind == "uint8" and output not in outputs:
                reason = "TensorRT supports uint8 only for inputs and outputs of the model"
                self._note("restriction", node, reason, "cast to int32 or to a float type")


_ENUM = {"float": "FLOAT", "double": "DOUBLE"}
