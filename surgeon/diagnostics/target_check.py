"""`surgeon.check`: everything that keeps a model from running on a target."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from surgeon.diagnostics.baked_in_sizes import check_dynamic_dims
from surgeon.diagnostics.rule_combinations import add_sets
from surgeon.diagnostics.rule_suggestions import suggest_rules
from surgeon.errors import GraphError, UsageError
from surgeon.file.model import Model
from surgeon.file.model_like import ModelLike, by_component, model_name, resolve_model
from surgeon.ir.index import Index
from surgeon.ops.plugins.plugin_declaration import declare_plugin_files
from surgeon.ops.torch_fallbacks import lost
from surgeon.pipeline.acceptance.kernel_support import resolve_provider
from surgeon.pipeline.rewriting.rule_run import gc_paused
from surgeon.pipeline.upgrading.declared_opset import fitting_opset
from surgeon.printed_commands import upgrade_to
from surgeon.runtime.implementations.implementation import is_python, traits_of_files
from surgeon.runtime.run_limits import DEFAULT_TIMEOUT, require_run_time
from surgeon.runtime.sessions.ep_library import PluginProvider, find_plugin
from surgeon.runtime.sessions.ort_session import require_libraries
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.opsets.migration import newest_opset
from surgeon.target_registry import names, target_of, targets
from surgeon.targets import op_support
from surgeon.targets.check_context import CheckContext, RuntimeRequest
from surgeon.targets.inspection.provenance import is_torch_export, source_location, torch_op
from surgeon.targets.lint.data_size import check_data_sizes, without_consequences
from surgeon.targets.lint.dtype_conflicts import InferredDtypes
from surgeon.targets.lint.finding import CONSTANT, Diagnostic, DiagnosticCollector, Findings
from surgeon.targets.lint.graph_structure import check_calls, check_inputs_and_outputs, check_structure
from surgeon.targets.lint.model_versions import check_versions
from surgeon.targets.lint.plugin_load import nodes_on_cpu
from surgeon.targets.lint.shape_mismatches import check_declared_shapes, check_shapes
from surgeon.targets.target import Target
from surgeon.targets.user_ops import UserOps


@by_component("source")
def check(
    source: ModelLike,
    target: str = "ort",
    *,
    ep: str | None = None,
    ep_library: str | None = None,
    custom_ops: Sequence[str | Path] = (),
    load: bool = True,
    run_time: float = DEFAULT_TIMEOUT,
    trt: str | None = None,
    build: bool = False,
    sm: str | int = "86",
    dims: Mapping[str, int | tuple[int, int, int]] | None = None,
) -> Findings:
    """List the problems that prevent a model from running on a target; equal ones once, with a count.

    Args:
        source: a path, or a model in memory: a ModelProto, gs.Graph, onnx_ir.Model or ONNXProgram.
        target: runtime to check for: "ort", "onnx" (only ops of the standard), "tensorrt", or an installed target.
        ep: execution provider of ONNX Runtime: "cpu", "cuda", "dml" or "tensorrt".  A node that falls back to the CPU
            is reported, but is not a problem.  Default: "cpu", or the first one of ep_library.
        ep_library: plugin with the execution provider: its Python module, or NAME=PATH of its library.
        custom_ops: libraries of custom ops, and Python files that implement ops, which only surgeon can run; for
            TensorRT libraries of plugin creators, and `.toml` files that declare plugins (`declare_plugin`).
        load: also load the model in the runtime: TensorRT's parser, or ONNX Runtime on the CPU if there is no problem.
        run_time: CPU time for the runtime to load or build the model.
        trt: TensorRT package to use: "tensorrt-rtx" or "tensorrt".  Default: "tensorrt-rtx".
        build: also build an engine.  This needs no GPU.
        sm: compute capability of the GPU that the engine is for: "75", "80", "86", "89", "120" or "121".
        dims: sizes of dynamic dims in that build: one, or (smallest, best, largest).

    Returns:
        The findings, those that stop the model first.  If no finding `stops`, surgeon knows no reason why the target
        should not run it.  Their `runtime` is the answer of TensorRT itself, and `runtime.end` why it gave none.

    Raises:
        SurgeonError: bad input, or a plugin library without plugin creators.

    Examples:
        >>> import surgeon
        >>> surgeon.check("notebooks/models/tiny_distilbert.onnx")
        []
    """
    wanted = _target_named(target)
    if ep is not None and len(wanted.providers) < 2:
        raise UsageError(f"Target {target} has no choice of execution providers. Omit ep.")
    plugin = None if ep_library is None else _plugin(wanted, ep_library, ep, load)
    provider = resolve_provider(target, ep) if plugin is None else None
    custom_ops = declare_plugin_files(custom_ops)
    own = [str(path) for path in custom_ops if wanted.loads_plugins and not is_python(path)]
    request = _request(
        wanted, load, run_time, trt=trt, build=build, sm=sm, dims=dims or {}, plugins=tuple(map(_library_path, own))
    )
    libraries = require_libraries([path for path in custom_ops if str(path) not in own])
    custom = UserOps(libraries)
    with traits_of_files(libraries), Model.open(resolve_model(source)) as model:
        with gc_paused():
            found = _findings(model, wanted, provider, custom=custom, request=request)
        is_first = any(one.name == provider for one in wanted.providers[:1])
        is_sound = not any(one.stops for one in found)
        if plugin is not None and is_sound:
            model.check_data(sums=True)
            found.extend(nodes_on_cpu(model, plugin, libraries, run_time))
        if load and wanted.load is not None and is_first and is_sound:
            model.check_data(sums=True)
            refused = None if any(map(is_python, custom_ops)) else wanted.load(model, libraries, run_time)
            found.extend([] if refused is None else [refused])
        is_of_torch, nodes = is_torch_export(model.skeleton), len(model.skeleton.graph.node)
    for one in found:
        _add_origin(one, is_of_torch)
    found.sort(key=lambda one: not one.stops)
    found.model, found.nodes = model_name(source), nodes
    return found


def _plugin(target: Target, library: str, ep: str | None, load: bool) -> PluginProvider:
    """The execution provider of a plugin.  Raises UsageError as `find_plugin`, and if nothing would use it."""
    if len(target.providers) < 2:
        raise UsageError(f"Target {target.name} has no choice of execution providers. Omit ep_library.")
    if not load:
        raise UsageError("A plugin says only for a loaded model which nodes it runs. Omit ep_library, or load=False.")
    return find_plugin(library, ep)


def _request(
    target: Target,
    load: bool,
    run_time: float,
    trt: str | None,
    build: bool,
    sm: str | int,
    dims: Mapping[str, int | tuple[int, int, int]],
    plugins: Sequence[str],
) -> RuntimeRequest:
    """The request to the target's runtime.  Raises UsageError if the target has none."""
    if target.name != "tensorrt" and (trt is not None or build or dims):
        raise UsageError(f"Target {target.name} does not support trt, build and dims. They need target tensorrt.")
    if build and not load:
        raise UsageError("A build needs load=True, because TensorRT must load the model to build it.")
    if dims and not build:
        raise UsageError("Sizes (dims) need build, because they matter only for an engine.")
    require_run_time(run_time)
    ranges = {name: _range(name, size) for name, size in dims.items()}
    return RuntimeRequest(load, run_time, trt, device=str(sm) if build else None, dims=ranges, plugins=plugins)


def _range(name: str, size: Any) -> tuple[int, int, int]:
    """The (minimum, optimum, maximum) size.  Raises UsageError for anything but one size or three."""
    sizes = tuple(size) if isinstance(size, (tuple, list)) else (size, size, size)
    if len(sizes) != 3 or not all(type(one) is int and one >= 0 for one in sizes):
        raise UsageError(
            f"Invalid size {size!r} of {name!r}. Give one integer, or the smallest, the best and the largest."
        )
    least, best, largest = sizes
    return least, best, largest


def _library_path(library: str) -> str:
    """The absolute path of a library.  Raises UsageError if it does not exist."""
    if not Path(library).is_file():
        raise UsageError(f"Plugin library not found: {library}")
    return str(Path(library).absolute())


def checkable_targets() -> list[str]:
    """Names of the targets that models can be checked for."""
    return [target.name for target in targets() if isinstance(target, Target)]


def _target_named(name: str) -> Target:
    """The target of this name.  Raises UsageError for an unknown one."""
    found = target_of(name) if name in names() else None
    if not isinstance(found, Target):
        raise UsageError(f"No target named {name!r} for a check; choose one of {', '.join(checkable_targets())}.")
    return found


def _findings(model: Model, target: Target, provider: str | None, custom: UserOps, request: RuntimeRequest) -> Findings:
    found = DiagnosticCollector()
    proto = model.skeleton
    check_versions(proto, found, target.knows_imports)
    if target.check_header is not None:
        target.check_header(proto, found)
    check_structure(model, found)
    if not check_calls(proto, found):  # recursive calls: further checks would not terminate
        findings = Findings(list(found))
        findings.target = target.name
        return findings
    wrong = check_data_sizes(model, found)
    index = Index(model)
    shapes = shapes_of(index)
    dtypes = InferredDtypes(index, shapes, found)
    check_shapes([node for scope in index.scopes for node in scope.nodes], shapes, dtypes, found)
    check_declared_shapes(index, shapes, found)
    check_inputs_and_outputs(
        proto.graph, lambda name: shapes.facts(index.main, name), found, wants_shapes=target.wants_shapes
    )
    limits = target.limits_of(index, shapes, provider)
    if wrong:  # do not give a runtime data of another size than the file declares
        request = replace(request, parse=False)
    examination = CheckContext(
        target,
        provider,
        index,
        shapes=shapes,
        dtypes=dtypes,
        limits=limits,
        user_ops=custom,
        diagnostics=found,
        request=request,
    )
    (target.examine or op_support.examine)(examination)
    _check_opset(target, index, found)
    is_sound = _rules_can_run(index)
    if is_sound:
        check_dynamic_dims(index, found)
    findings = Findings(without_consequences(list(found), wrong))
    findings.runtime, findings.target = found.runtime, target.name
    if is_sound:
        uncured = suggest_rules(findings, index, target, provider)
        known = [found for found, _ in uncured]
        uncured += [(found, []) for found in findings if CONSTANT in found.helps and found not in known]
        add_sets(uncured, index, model, target=target, ep=provider)
        _add_declared(findings, index)
    return findings


def _add_declared(findings: Findings, index: Index) -> None:
    """Add the command that declares the opset of the nodes, after the rules that help."""
    newer = [found for found in findings if found.kind == "opset"]
    try:
        opset = fitting_opset(index, newest_opset())[0] if newer else 0
    except GraphError:  # no opset fits all nodes
        return
    for found in newer if opset else ():
        rules = sum(text.startswith("rule ") for text in found.helps)
        found.helps.insert(rules, f"declare the opset of the nodes: {upgrade_to(opset)}")


def _check_opset(target: Target, index: Index, found: DiagnosticCollector) -> None:
    """Add a finding for an opset outside the documented range; one that is too old stops the model."""
    opsets = target.opsets
    version = index.main.opset
    if opsets and version and version not in opsets:
        title = f"{target.title} {target.version}".strip()
        reason = f"{title} is documented for opsets {opsets[0]} to {opsets[-1]}, but the model has opset {version}"
        is_read = (
            found.runtime is not None and found.runtime.title != ""
        )  # by the runtime itself, in spite of its documentation
        found.add("advice", "", reason, stops=version < opsets[0] and not is_read)


def _add_origin(found: Diagnostic, is_of_torch: bool) -> None:
    """Add the origin of the nodes, and the loss that cannot be repaired."""
    protos = [node.proto for node in found.where]
    found.came_from = next(filter(None, map(source_location, protos)), "")
    found.is_of_torch = is_of_torch
    if is_of_torch:
        found.torch_op = next(filter(None, map(torch_op, protos)), "")
    loss = next(filter(None, map(lost, protos)), None)
    if loss is not None:
        found.helps = [loss.rstrip(".")]


def _rules_can_run(index: Index) -> bool:
    """Whether rules can run over the index."""
    try:
        index.check()
    except GraphError:
        return False
    return True
