"""The IR version and opsets of a model, against what the target reads."""

import re

import onnx
from onnx import helper

from surgeon.ops.schemas import check_node, knows_domain
from surgeon.ops.schemas.op_schema import normalize_domain
from surgeon.ops.traversal import all_nodes, imports_of
from surgeon.targets.lint.finding import DiagnosticCollector

PLAIN_IR = 10  # what every ONNX Runtime and onnx that surgeon works with reads
OLDEST_SUGGESTED = 7
_IR_REFUSED = re.compile(r"Unsupported model IR version: \d+, max supported IR version: (\d+)")
_OPSET_REFUSED = re.compile(
    r"Opset (\d+) is under development.*?Current official support for domain (\S+) is till opset (\d+)"
)


def check_versions(model: onnx.ModelProto, found: DiagnosticCollector, knows_imports: bool) -> None:
    """Report missing versions, and add them to the model, so that everything else can be checked.

    The model is a copy.  knows_imports: the target needs no imports of known domains.
    """
    _check_ir(model, found)
    _check_imports(model, found, knows_imports)


def _check_ir(model: onnx.ModelProto, found: DiagnosticCollector) -> None:
    if not model.ir_version:
        found.add("model", "", "the model has no IR version", helps=[f"set ir_version to {PLAIN_IR}"])
        model.ir_version = PLAIN_IR


def _check_imports(model: onnx.ModelProto, found: DiagnosticCollector, knows_imports: bool) -> None:
    graphs = [("the model", model.graph.node, model.opset_import)]
    graphs += [
        (f"function {function.domain}::{function.name}", function.node, function.opset_import)
        for function in model.functions
    ]
    for where, nodes, imports in graphs:
        known = imports_of(imports or model.opset_import)
        for domain in dict.fromkeys(normalize_domain(node.domain) for node in all_nodes(nodes)):
            if domain in known:
                continue
            version = 1 if domain else _fitting_opset(list(all_nodes(nodes)))
            advice = f'opset_import.append(onnx.helper.make_opsetid("{domain}", {version}))'
            fits = "" if domain else ", which fits its nodes"
            found.add(
                "model",
                "",
                f"{where} uses ops of {domain or 'ai.onnx'}, but imports no version of it",
                helps=[f"import version {version}{fits}: {advice}"],
                stops=not knows_imports or not domain or not knows_domain(domain),
            )
            imports.append(helper.make_opsetid(domain, version))


def _fitting_opset(nodes: list[onnx.NodeProto]) -> int:
    """The newest version of ai.onnx at which every node fits its schema, or most nodes."""
    plain = [node for node in nodes if not normalize_domain(node.domain)]
    best = newest = onnx.defs.onnx_opset_version()
    least = len(plain) + 1
    for version in range(newest, OLDEST_SUGGESTED, -1):
        misfits = sum(bool(check_node(node, version, lambda _: None, True)) for node in plain)
        if misfits < least:
            best, least = version, misfits
        if not misfits:
            break
    return best


def check_with_onnx(model: onnx.ModelProto, found: DiagnosticCollector) -> None:
    """Report versions that the installed onnx does not read."""
    if model.ir_version > onnx.IR_VERSION:
        reason = f"the model has IR version {model.ir_version}, but onnx {onnx.__version__} supports {onnx.IR_VERSION}"
        found.add("model", "", reason, helps=[f"set ir_version to {PLAIN_IR}"])
    version, newest = imports_of(model.opset_import).get("", 0), onnx.defs.onnx_opset_version()
    if version > newest:
        found.add("model", "", f"the model imports ai.onnx {version}, but onnx supports at most {newest}")


def check_with_runtime(model: onnx.ModelProto, found: DiagnosticCollector) -> None:
    """Load a model of one node with the same versions in ONNX Runtime, so that an error is the header's fault."""
    version = imports_of(model.opset_import).get("", 0)
    if model.ir_version <= PLAIN_IR and version <= 20:  # every ONNX Runtime from 1.20 on reads those
        return
    from surgeon.runtime.sessions.ort_session import OrtSession, SessionError

    ir_version, opset = int(model.ir_version), version
    for _ in range(2):  # a header may have both faults, and ONNX Runtime reports the first
        probe = helper.make_model(_nothing(), ir_version=ir_version, opset_imports=[helper.make_opsetid("", opset)])
        try:
            with OrtSession(probe):
                return
        except SessionError as error:
            line = error.message
        refused = _IR_REFUSED.search(line)
        if refused is not None:
            found.add(
                "model",
                "",
                f"the model has IR version {ir_version}, but the installed ONNX Runtime supports at most {refused[1]}",
                helps=[f"set ir_version to {PLAIN_IR}: model.ir_version = {PLAIN_IR}; onnx.save(model, path)"],
            )
            ir_version = PLAIN_IR
            continue
        newer = _OPSET_REFUSED.search(line)
        most = f"at most {newer[3]}" if newer is not None else "only an older one"
        found.add(
            "model",
            "",
            f"the model imports ai.onnx {opset}, but the installed ONNX Runtime supports {most}",
            helps=[f"export at opset {newer[3]}" if newer is not None else "export at an older opset"],
        )
        return


def _nothing() -> onnx.GraphProto:
    value = helper.make_tensor_value_info
    one = onnx.TensorProto.FLOAT
    node = helper.make_node("Identity", ["x"], ["y"])
    return helper.make_graph([node], "probe", [value("x", one, [1])], [value("y", one, [1])])
