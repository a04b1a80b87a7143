"""The runtime of a target, in which proofs run replacements where it is here."""

from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.proof.check_options import CheckOptions
from surgeon.target_registry import RuntimeMissing, TargetRuntime, target_of


def find_runtime(report: RewriteReport, options: CheckOptions) -> TargetRuntime | None:
    """The runtime of the report's target, which the report then names; None for ONNX Runtime on the CPU.

    That is also what runs replacements if the runtime is not here, and the report then says why.
    """
    target = target_of(report.target)
    if target.proof_runtime is None:
        report.not_on_target = f"no runtime of {target.title} is known"
        return None
    try:
        found = target.proof_runtime(report.ep, options.custom_ops, options.run_time)
    except RuntimeMissing as why:
        report.not_on_target = str(why)
        return None
    report.runtime = "" if found is None else found.title
    return found
