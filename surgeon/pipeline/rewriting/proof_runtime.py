"""The runtime of a target, in which proofs run replacements if it is available."""

from typing import TYPE_CHECKING

from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.proof.check_options import CheckOptions
from surgeon.target_registry import RuntimeMissing, TargetRuntime, target_of

if TYPE_CHECKING:
    from surgeon.runtime.sessions.ep_library import PluginProvider


def find_runtime(
    report: RewriteReport, options: CheckOptions, plugin: "PluginProvider | None" = None
) -> TargetRuntime | None:
    """The runtime of the report's target, which the report then names; None for ONNX Runtime on the CPU.

    plugin: the execution provider that runs replacements in its place.  ONNX Runtime on the CPU also runs replacements
    if the runtime is not available, and the report then gives the reason.
    """
    found: TargetRuntime | None
    if plugin is not None:
        from surgeon.runtime.sessions.provider_runtime import runtime_of  # not at the top: few runs have any

        found = runtime_of(plugin, options.custom_ops, options.run_time)
        report.runtime = "" if found is None else found.title
        return found
    target = target_of(report.target)
    if target.proof_runtime is None:
        report.not_on_target = f"surgeon does not know a runtime for {target.title}"
        return None
    try:
        found = target.proof_runtime(report.ep, options.custom_ops, options.run_time)
    except RuntimeMissing as why:
        report.not_on_target = str(why)
        return None
    report.runtime = "" if found is None else found.title
    return found
