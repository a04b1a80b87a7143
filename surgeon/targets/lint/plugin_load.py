"""Which nodes of a model an execution provider of a plugin runs: its own answer, because its kernels have no table."""

from collections import Counter
from collections.abc import Sequence

from surgeon.file.model import Model
from surgeon.ir.index import Index
from surgeon.ir.scope import Node
from surgeon.runtime.sessions.ep_library import PluginProvider
from surgeon.targets.lint.dtype_conflicts import op_text
from surgeon.targets.lint.finding import Diagnostic, DiagnosticCollector, node_path


def nodes_on_cpu(
    model: Model, plugin: PluginProvider, libraries: Sequence[str], run_time: float
) -> Sequence[Diagnostic]:
    """The nodes that a plugin leaves to the CPU, or the reason why the model does not load.  This reads its weights."""
    # Not at the top: `import surgeon` is to be light.
    from surgeon.runtime.sessions.ort_session import SessionError
    from surgeon.runtime.sessions.provider_runtime import nodes_elsewhere, plugin_runtime

    runtime = plugin_runtime(plugin, libraries, run_time)
    try:
        left = nodes_elsewhere(model.runnable(), runtime)
    except SessionError as error:
        reason = f"ONNX Runtime does not load the model under {runtime.label}: {error.message.rstrip('.')}"
        return [Diagnostic("load", "", reason, count=1)]
    if not left:
        return []
    named: dict[tuple[str, str], list[Node]] = {}
    for node in (node for scope in Index(model).scopes for node in scope.nodes):
        named.setdefault((op_text(node), node.proto.name), []).append(node)
    found, reason = DiagnosticCollector(), f"{runtime.label} does not take it, so it runs on the CPU"
    for (op, name), count in Counter(left).items():
        nodes = named.get((op, name), [])
        known: Sequence[Node | None] = nodes if len(nodes) == count else [None] * count  # nodes of a function, say
        for one in known:
            at = name if one is None else node_path(one)
            found.add("kernel", op, reason, link="kernel", at=at, node=one, stops=False)
    return list(found)
