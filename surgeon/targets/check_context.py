"""The inputs of a check of a model's nodes for a target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from surgeon.ir.index import Index
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.target_registry import BaseTarget
from surgeon.targets.lint.dtype_conflicts import InferredDtypes
from surgeon.targets.lint.finding import DiagnosticCollector
from surgeon.targets.op_limits import NodeLimits
from surgeon.targets.user_ops import UserOps


@dataclass(frozen=True, slots=True)
class RuntimeRequest:
    """The task of the target's runtime, if it is installed."""

    parse: bool
    """Whether it parses the model."""
    run_time: float
    """Seconds of processor time that it may take."""
    library: str | None = None
    """Which installed library to use, None for the default."""
    device: str | None = None
    """Device to build the model for, None for no build."""
    dims: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    """Dynamic dims as (least, best, largest)."""
    plugins: Sequence[str] = ()
    """Plugin libraries to load."""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The inputs of the checks of nodes for a target, and their report."""

    target: BaseTarget
    """The target."""
    provider: str | None
    """Provider whose kernels are asked, None without one."""
    index: Index
    """Index of the model."""
    shapes: ShapeInference
    """Its inferred shapes."""
    dtypes: InferredDtypes
    """Its inferred dtypes."""
    limits: NodeLimits
    """Limits of the target."""
    user_ops: UserOps
    """Ops that the user brings."""
    diagnostics: DiagnosticCollector
    """The collector of the findings."""
    request: RuntimeRequest
    """The task of the target's runtime."""
