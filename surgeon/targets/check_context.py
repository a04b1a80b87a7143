"""What a target is asked when it looks at the nodes of a model."""

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
    """What is wanted of the target's own runtime, where it is installed.

    parse: have it read the model.  library: which of several that are installed, None for the usual one.  device: what
    it is to build the model for, None for no build.  dims: sizes of free dimensions as (least, best, largest).
    run_time: seconds of processor time that it may take.  plugins: libraries that it loads.
    """

    parse: bool
    run_time: float
    library: str | None = None
    device: str | None = None
    dims: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    plugins: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What is known of a model when its nodes are looked at for a target, and where faults are noted.

    provider: the one that is asked for kernels, None where there is none.  user_ops: what the user brings.
    """

    target: BaseTarget
    provider: str | None
    index: Index
    shapes: ShapeInference
    dtypes: InferredDtypes
    limits: NodeLimits
    user_ops: UserOps
    diagnostics: DiagnosticCollector
    request: RuntimeRequest
