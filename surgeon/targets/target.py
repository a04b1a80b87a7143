"""A target as a value: its forms, its kernels and own ops, its limits, and its checks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from surgeon.target_registry import BaseTarget
from surgeon.target_registry import provider as provider_of_name

if TYPE_CHECKING:  # a rewrite needs no more of a target than what it writes and runs
    from onnx import ModelProto

    from surgeon.file.model import Model
    from surgeon.ir.index import Index
    from surgeon.shapes.shape_inference import ShapeInference
    from surgeon.targets.check_context import CheckContext
    from surgeon.targets.lint.finding import Diagnostic, DiagnosticCollector
    from surgeon.targets.op_limits import Limit, NodeLimits


@dataclass(frozen=True)
class Target(BaseTarget):
    """A platform for a model.  Found by its name through an entry point of the group `surgeon.targets`.

    Examples:
        >>> from surgeon import Provider, Target
        >>> npu = Provider.listing("npu", "Acme's NPU", {"ai.onnx::Relu": ("float",)})
        >>> Target("acme", "Acme", ("acme", "onnx", "any"), ("acme", "onnx"), like="onnx", providers=(npu,)).title
        'Acme'
    """

    limits: "Callable[[], Mapping[str, Limit]] | Mapping[str, Limit]" = field(default_factory=dict)
    """Limits of its ops: by op ("TopK", "acme::HardGelu") a function of `NodeFacts` that yields the problem and the
    remedy, a clause each; or a function that returns this table."""
    version: str = ""
    """Its version, of which all of this is true."""
    opsets: range | None = None
    """Versions of ai.onnx that it is documented for, None for any."""
    also: tuple[str, ...] = ()
    """Targets whose forms the same runtime runs too."""
    loads_plugins: bool = False
    """Whether its runtime loads plugin libraries."""
    knows_imports: bool = False
    """Whether domains of ONNX and ONNX Runtime need no import."""
    wants_shapes: bool = False
    """Whether graph inputs and outputs must have a shape."""
    check_header: "Callable[[ModelProto, DiagnosticCollector], None] | None" = None
    """Reports what it does not read of a model's versions."""
    examine: "Callable[[CheckContext], None] | None" = None
    """Reports the nodes that it does not run; None: by ops, kernels and limits (`surgeon.targets.op_support`)."""
    load: "Callable[[Model, Sequence[str], float], Diagnostic | None] | None" = None
    """Loads a model that has no other fault; returns what its first provider refuses, else None."""
    next_steps: "Callable[[Index], Iterable[str]] | None" = None
    """The next steps for a rewritten model before it runs there, a clause each."""

    def limits_on(self, provider: str | None) -> "Mapping[str, Limit]":
        """Its limits by op, and those of a provider, which may belong to another target."""
        own = self.limits() if callable(self.limits) else self.limits
        runs = None if provider is None else provider_of_name(provider)
        return {**own, **(runs.limits() if runs is not None else {})}

    def limits_of(self, index: "Index", shapes: "ShapeInference", provider: str | None = None) -> "NodeLimits":
        """The limits of a model's nodes."""
        from surgeon.targets.op_limits import NodeLimits

        return NodeLimits(index, shapes, self.limits_on(provider), self.title)
