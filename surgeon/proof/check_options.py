"""Options of the checks of a rewrite."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from surgeon.errors import UsageError
from surgeon.runtime.run_limits import DEFAULT_TIMEOUT, LONGEST, Inputs, as_list, require_run_time

if TYPE_CHECKING:
    from onnx import GraphProto

Check = Literal["sites", "model", "both", "none"]
CHECKS = ("sites", "model", "both", "none")


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How the numeric checks run.

    Examples:
        >>> import surgeon
        >>> options = surgeon.CheckOptions(seed=7, dims={"sequence": 12})
        >>> model = "notebooks/models/tiny_distilbert.onnx"
        >>> _, report = surgeon.rewrite(model, "gelu", output="out.onnx", options=options)
        >>> report.outcome
        'proved'
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    """Size of a dynamic dimension of the generated inputs."""
    seed: int = 0
    """Seed for generated inputs."""
    custom_ops: Sequence[str | Path] = ()
    """Custom-op library, Python file with ops (not for bench), or `.toml` file that declares plugins."""
    rtol: float | None = None
    """Relative tolerance.  Default: depends on the dtype."""
    atol: float | None = None
    """Absolute tolerance.  Default: depends on the dtype."""
    inputs: Sequence[Inputs] = ()
    """Input data for runs of the whole model: an .npz file with one array per input, or a folder of them.  In Python,
    arrays by name too."""
    layers: bool = False
    """Also compare inner tensors of the whole models, and name the first one that differs."""
    proof_time: float = 10.0
    """CPU time limit for the proof of one site.  Beyond it, the site is unproved."""
    run_time: float = DEFAULT_TIMEOUT
    """CPU time limit to load or run a whole model.  Beyond it, the result is unproved."""
    jobs: int | None = None
    """Number of proofs to run in parallel.  Default: one per core, at most 4."""
    cache: bool = True
    """Reuse proofs of earlier runs.  SURGEON_CACHE names their folder; by default it is your system's cache folder."""
    coverage: bool = False
    """Report the branches of the original nodes that no input of a proof reaches, such as values below a threshold.
    This does not change any result."""
    assume: Sequence[str] | Mapping[str, str] = ()
    """Assumption about the values of an input: a range such as 0..1, finite, nonzero, sorted, mask;
    left-padded, right-padded or no padding.  In Python, "NAME: WORDS", or words by name."""

    def __post_init__(self) -> None:
        for name in ("custom_ops", "inputs"):
            object.__setattr__(self, name, as_list(getattr(self, name)))
        given = self.assume
        if isinstance(given, (str, Mapping)):
            lines = (given,) if isinstance(given, str) else [f"{name}: {words}" for name, words in given.items()]
            object.__setattr__(self, "assume", lines)
        if self.custom_ops:
            from surgeon.ops.plugins.plugin_declaration import declare_plugin_files  # not at the top: few runs have any

            object.__setattr__(self, "custom_ops", declare_plugin_files(self.custom_ops))

    def require(self) -> None:
        """Raise UsageError for invalid options."""
        if not 0 < self.proof_time <= LONGEST:
            raise UsageError(f"Invalid proof time {self.proof_time:g} s. Give positive seconds, as in --proof-time 60.")
        require_run_time(self.run_time)
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"Invalid number of jobs {self.jobs}. Give at least 1, as in --jobs 2.")
        if self != CheckOptions():
            self.required()

    def required(self) -> list[str]:
        """The custom ops as full paths.  Raises UsageError as `require_options`, and for unknown words."""
        if self.assume:
            from surgeon.analysis.assumptions.assumption import parse_all  # not at the top: few runs have any

            parse_all(self.assume)
        return require_options(
            self.seed, self.dims, self.custom_ops, rtol=self.rtol, atol=self.atol, inputs=self.inputs
        )

    def require_dims_of(self, *graphs: "GraphProto") -> None:
        """Raise UsageError for the size of a dim that no input of these graphs has, even if nothing runs."""
        if self.dims:
            from surgeon.shapes.constraints.input_dims import check_dim_names, dynamic_dims, required_inputs

            check_dim_names(
                dynamic_dims([one for graph in graphs for one in required_inputs(graph).values()]), self.dims
            )


def require_options(
    seed: int,
    dims: Mapping[str, int],
    custom_ops: Sequence[Path | str],
    *,
    rtol: float | None,
    atol: float | None,
    inputs: Sequence[Inputs] = (),
) -> list[str]:
    """Raise UsageError for invalid options of a check; return `custom_ops` as full paths.

    Invalid are a negative seed, sizes below 0, and tolerances that are negative, infinite or NaN.  Libraries and Python
    files must exist, and load or run; inputs must exist, and exclude sizes.
    """
    from surgeon.runtime.numerics.array_comparison import require_tolerances
    from surgeon.runtime.sessions.ort_session import require_libraries
    from surgeon.shapes.constraints.input_dims import require_sizes  # not at the top: few runs ask

    if not _is_count(seed):
        raise UsageError(f"Invalid seed {seed!r}. Give an integer of at least 0.")
    if not isinstance(inputs, Sequence) or not all(isinstance(item, (str, Path, Mapping)) for item in inputs):
        raise UsageError(f"Invalid inputs={inputs!r}. Give arrays by name, .npz files, or folders of .npz files.")
    require_sizes(dims)
    require_tolerances(rtol, atol)
    if inputs and dims:
        raise UsageError("--inputs and --dim cannot be combined, because the input data already has sizes.")
    for item in inputs:
        if not isinstance(item, Mapping) and not Path(item).exists():
            raise UsageError(f"No inputs found at {item}. Give an .npz file or a folder of .npz files.")
    return require_libraries(custom_ops)


def require_check(check: str, known: Sequence[str], require_proof: bool) -> None:
    """Raise UsageError for an unknown check, and for a required proof without a check."""
    if check not in known:
        raise UsageError(f"Unknown check {check!r}. Choose one of {', '.join(known)}.")
    if require_proof and check == "none":
        raise UsageError("A proof is required, but check='none' turns the check off. Choose another check.")


def _is_count(number: object) -> bool:
    """Whether a number is an integer of at least 0."""
    return isinstance(number, Integral) and not isinstance(number, bool) and int(number) >= 0


def require_expected_counts(expect: Mapping[str, int]) -> None:
    """Raise UsageError if `expect` is not a mapping of rule names to counts."""
    if not isinstance(expect, Mapping) or not all(_is_count(count) for count in expect.values()):
        raise UsageError(f"Invalid expect={expect!r}. Give counts by rule name, as in {{'gelu': 4}}.")


def require_output(in_memory: bool, output: object, dry_run: bool) -> None:
    """Raise UsageError for a model in a file without an output path."""
    if output is None and not in_memory and not dry_run:
        raise UsageError("No output path given. Example: output='out.onnx' (it may be the path of the input).")


def resolve_options(given: CheckOptions | None) -> CheckOptions:
    """The given options, or the defaults.  Raises UsageError for other types."""
    if given is not None and not isinstance(given, CheckOptions):
        raise UsageError(f"Invalid options={given!r}. Example: options=surgeon.CheckOptions(seed=1)")
    return given or CheckOptions()


def resolve_output(given: "str | os.PathLike[str] | None") -> Path | None:
    """The path to write, None for none.  Raises UsageError for other types."""
    if given is None or isinstance(given, (str, os.PathLike)):
        return None if given is None else Path(given)
    raise UsageError(f"Invalid output={given!r}. Give a path, as in output='out.onnx'.")
