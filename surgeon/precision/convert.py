"""The public function for conversions of whole models to another precision."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from surgeon.errors import CheckFailed, RuleError, UsageError
from surgeon.file.model_like import ModelLike, is_in_memory
from surgeon.file.save import ExternalDataMode
from surgeon.ops.schemas.attribute_values import dtype_number
from surgeon.pipeline.acceptance.kernel_support import resolve_provider
from surgeon.pipeline.checks import Checks, Saving
from surgeon.pipeline.component_runs import for_each_component
from surgeon.pipeline.driver import run
from surgeon.pipeline.reports.report import Report
from surgeon.pipeline.rewriting.rollback import rollback_message
from surgeon.pipeline.rewriting.rule_set import Rules, RuleSet
from surgeon.precision.conversion import Convert
from surgeon.precision.convert_report import ConvertReport
from surgeon.precision.kept_nodes.selectors import AUTO
from surgeon.precision.planning.node_dtypes import DtypeChange
from surgeon.precision.weights.quantize import Quantize
from surgeon.precision.weights.quantize_report import QuantizeReport
from surgeon.precision.weights.weight_rounding import ACCURACY_LEVELS, BLOCKS, BlockRounding
from surgeon.precision.writing.conversion_candidates import Io
from surgeon.proof.check_options import CheckOptions, require_check, require_output, resolve_output
from surgeon.result_base import ModelAndReport

PAIRS = {
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float16", "float64"),
    "float32": ("float64", "float16", "bfloat16"),
    "int32": ("int64",),
}
"""The old dtypes for each new one; the first is the default."""
WEIGHTS = {"int4": 4, "int8": 8}
"""The bits of weights that are rounded to integers, by name."""
BLOCK = 32
CHECKS = ("model", "none")


@for_each_component
def convert(
    source: ModelLike,
    to: str = "float16",
    *,
    from_: str | None = None,
    output: str | os.PathLike[str] | None = None,
    io: Io = "keep",
    keep: Sequence[str] = (AUTO,),
    max_error: float | None = None,
    clamp: bool = False,
    block: int = BLOCK,
    asymmetric: bool = False,
    accuracy_level: int | None = None,
    ep: str | None = None,
    rules: Rules = (),
    check: Literal["model", "none"] = "model",
    require_proof: bool = False,
    dry_run: bool = False,
    external_data: ExternalDataMode = "auto",
    force: bool = False,
    options: CheckOptions | None = None,
) -> tuple[Any, ConvertReport]:
    """Convert a model to another precision, except for as few nodes and with as few Casts as possible.

    Args:
        source: a path (then `output` says where to write; it may be the same path), or a model in memory.
        to: dtype to convert to: "float16", "bfloat16", "float32" or "int32".  "int4", "int8": only weights are rounded.
        from_: dtype to convert from.  Default: float32; for int32, int64; for float32, float64.
        output: the path to write, for a source that is a path.
        io: "keep": inputs and outputs of the model keep their dtype.  "convert": they get the new one.
        keep: nodes that keep their dtype: "op:Softmax", "name:*/norm/*", "rule:layer_norm".  "auto": decide from test
            runs and known formulas.
        max_error: largest error of an output, as a fraction of its largest value.  Default: 0.01; for int4 and int8, no
            limit.
        clamp: clamp weights that are out of range, instead of keeping them in the old dtype.
        block: for int4 and int8, the number of elements of a weight with one scale: 16, 32, 64, 128 or 256.
        asymmetric: for int4 and int8, store a zero point for each block.
        accuracy_level: for int4 and int8, 4 lets kernels round activations to 8 bits too, and 0 does not.  Default: 0
            for int4; 4 for int8, which is slow on a CPU without.
        ep: execution provider of ONNX Runtime that will run the result: "cpu", "cuda", "dml" or "tensorrt".  Nodes
            without a kernel for the new dtype keep their dtype.  Default: none.
        rules: rules or groups to run before the conversion, written as for `rewrite`.
        check: "model" runs both models and compares them, "none" runs nothing.
        require_proof: treat a result that cannot be proved as a failed one.
        dry_run: report the conversion, and write nothing.
        external_data: the handling of data files: "auto", "share", "copy", "inline", or a file: "weights/m.data".
        force: overwrite a data file of other content.
        options: inputs, seeds, sizes and limits of the runs.

    Returns:
        The model in the kind it was given (a path: the path written), and a ConvertReport.

    Raises:
        UsageError: the dtypes do not fit together, `keep` matches nothing, or `ep` is unknown.
        GraphError: the model breaks ONNX's rules.
        CheckFailed: no conversion was found whose outputs change by at most `max_error`; nothing is written.

    Examples:
        >>> import surgeon
        >>> path, report = surgeon.convert("notebooks/models/tiny_distilbert.onnx", output="half.onnx")
        >>> report.outcome, report.casts
        ('proved', 1)
    """
    require_check(check, CHECKS, require_proof)
    word = "auto" if check == "model" else check
    checks = Checks.named(word, ("auto", "none"), require_proof, options, dry_run=dry_run)
    require_output(is_in_memory(source), output, dry_run)
    rule_set = RuleSet(rules)
    conversion = conversion_step(
        to,
        from_,
        io=io,
        keep=(keep,) if isinstance(keep, str) else keep,
        max_error=max_error,
        clamp=clamp,
        block=block,
        asymmetric=asymmetric,
        accuracy_level=accuracy_level,
        provider=None if ep is None else resolve_provider("ort", ep),
        output=resolve_output(output),
        steps=[rule_set.report] if rules else [],
    )
    transforms: list[RuleSet | Convert | Quantize] = [*([rule_set] if rules else []), conversion]
    made, _ = run(source, transforms, checks, Saving(output, external_data, force), agree=_refuse_rollback)
    return ModelAndReport((made, conversion.report))


def conversion_step(
    to: str,
    from_: str | None = None,
    *,
    io: Io = "keep",
    keep: Sequence[str] = (AUTO,),
    max_error: float | None = None,
    clamp: bool = False,
    block: int = BLOCK,
    asymmetric: bool = False,
    accuracy_level: int | None = None,
    provider: str | None = None,
    output: Path | None = None,
    steps: Sequence[Report] = (),
) -> Convert | Quantize:
    """The conversion as a step of a run; arguments as for `convert`, and the reports of steps before.

    Raises UsageError for options that do not fit together.
    """
    if io not in ("keep", "convert"):
        raise UsageError(f"Unknown io {io!r}. Choose keep or convert.")
    if max_error is not None and not max_error > 0:
        raise UsageError(f"The largest error must be above 0 (for example 0.01), got {max_error:g}.")
    if to in WEIGHTS:
        _refuse({"from": from_ is not None, "io convert": io != "keep", "clamp": clamp}, f"{to} rounds only weights")
        rounding = _rounding(WEIGHTS[to], block, asymmetric=asymmetric, level=accuracy_level)
        report = QuantizeReport.of(to, rounding, max_error, list(steps))
        return Quantize(rounding=rounding, keep=keep, provider=provider, output=output, report=report)
    given = {"block": block != BLOCK, "asymmetric": asymmetric, "accuracy-level": accuracy_level is not None}
    _refuse(given, f"only int4 and int8 have blocks, not {to}")
    change = _change(to, from_)
    most = 1e-2 if max_error is None else max_error
    return Convert(
        change=change,
        io=io,
        keep=keep,
        max_error=most,
        provider=provider,
        clamp=clamp,
        output=output,
        report=ConvertReport("", "", change.names, max_error=most, steps=list(steps)),
    )


def _refuse_rollback(done: Report) -> None:
    """Raise CheckFailed if sites of rules were rolled back."""
    if done.rolled_back:
        raise CheckFailed(rollback_message(done), done)


def _refuse(given: Mapping[str, bool], why: str) -> None:
    """Raise UsageError for options that do not fit the dtype.  given: whether each is given."""
    found = next((name for name, is_given in given.items() if is_given), None)
    if found is not None:
        raise UsageError(f"--{found} does not fit: {why}. Omit it.")


def _rounding(bits: int, block: int, *, asymmetric: bool, level: int | None) -> BlockRounding:
    """How weights are rounded.  Raises UsageError for values that ONNX Runtime does not have."""
    if block not in BLOCKS:
        raise UsageError(f"ONNX Runtime has no blocks of {block}. Choose {', '.join(map(str, BLOCKS))}.")
    level = ACCURACY_LEVELS[bits] if level is None else level
    if level not in ACCURACY_LEVELS.values():
        raise UsageError(f"The accuracy level must be 0 (activations stay as they are) or 4, got {level}.")
    return BlockRounding(bits, block, symmetric=not asymmetric, accuracy_level=level)


def _change(to: str, from_: str | None) -> DtypeChange:
    """The dtypes.  Raises UsageError for an unknown pair."""
    try:
        new = dtype_number(to)
        names = {dtype_number(name): name for name in PAIRS}
        known = PAIRS[names[new]]
        old = dtype_number(known[0] if from_ is None else from_)
    except (RuleError, KeyError):
        dtypes = ", ".join((*PAIRS, *WEIGHTS))
        raise UsageError(f"Cannot convert {from_ or 'a model'} to {to!r}. Known dtypes: {dtypes}") from None
    if old not in map(dtype_number, known):
        raise UsageError(f"Cannot convert {from_!r} to {to!r}. Dtypes that can be converted: {', '.join(known)}")
    return DtypeChange(old, new)
