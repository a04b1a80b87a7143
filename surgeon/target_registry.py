"""The installed targets, and the facts of a target that every package may use: its forms, its providers, its own ops.

Built-in targets are modules of `surgeon.targets`; others have the entry point group `surgeon.targets`, and are loaded
on demand.  Checks of a target belong to higher packages: `surgeon.targets.target.Target` adds them.
"""

import importlib
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, Self

from surgeon.entry_points import TARGETS, entry_points, loaded
from surgeon.errors import SurgeonError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from pathlib import Path

    from onnx import ModelProto, NodeProto

ANY_KIND = "any"  # the kind of form that suits every target, since it only removes nodes
DECOMPOSED = "decomposed"
_FLOAT = re.compile(r"float|double|b?float16|float8\w+|float4\w+")
OWN = ("ort", "onnx", "tensorrt", "contrib", DECOMPOSED)  # modules of surgeon.targets, in the order of listings
ANY_FLOAT = "*"  # represents all floating-point types of a node with unknown type variables


class OpSet(Protocol):
    """The ops that a target adds: which they are, checks of their nodes, and their output dtypes."""

    def has(self, domain: str, op: str) -> bool:
        """Whether an op is one of them."""
        ...

    def check(
        self, node: "NodeProto", opset: int, dtype_of: Callable[[str], int | None], in_function: bool
    ) -> list[str]:
        """Every violation, one sentence each; arguments as of `surgeon.ops.schemas.node_check.check_node`."""
        ...

    def learn(self, node: "NodeProto", opset: int, known: dict[str, int | None]) -> None:
        """Add the inferred dtypes of the outputs to `known`, as `TensorProto.DataType` by tensor."""
        ...


class RuntimeMissing(SurgeonError):
    """The runtime of a target cannot run here.  The message is a clause that says why."""


class TargetRuntime(Protocol):
    """The runtime of replacements in proofs for a target, as a picklable value."""

    @property
    def title(self) -> str:
        """Its name in sentences, with its version."""
        ...

    @property
    def precision(self) -> str:
        """The dtype that it computes wider floats in; empty if it computes each float in its own dtype."""
        ...

    def open(self, model: "ModelProto") -> Any:
        """A session of a model (`surgeon.runtime.sessions.model_session.ModelSession`).  Raises SessionError."""
        ...


@dataclass(frozen=True, slots=True)
class Provider:
    """An execution provider of ONNX Runtime, or another runtime.

    Examples:
        >>> from surgeon import Provider
        >>> Provider.listing("acme", "Acme 2", {"ai.onnx::Relu": ("float", "float16")}).full_title
        'Acme 2'
    """

    name: str
    """Name, as in `--ep`."""
    title: str
    """Name in sentences."""
    table: Callable[[], Mapping[str, Any]]
    """Loads its kernels, in the format of `surgeon/targets/data/kernels_*.json`."""
    is_of_ort: bool = False
    """Whether it is part of ONNX Runtime, which can list its kernels."""
    runs_bodies: bool = False
    """Whether ONNX Runtime runs a function's body in it if it has no kernel for a node."""
    limits: Callable[[], Mapping[str, Callable[[Any], Any]]] = dict
    """Returns further limits of its kernels, by op: a `surgeon.targets.op_limits.Limit`."""

    @property
    def full_title(self) -> str:
        """The title, with its owner."""
        return f"ONNX Runtime's {self.title} provider" if self.is_of_ort else self.title

    @classmethod
    def listing(cls, name: str, title: str, ops: Mapping[str, Collection[str]]) -> Self:
        """A provider that runs these ops at any opset: by name with its domain, the floating-point types of each.

        {"ai.onnx::Relu": ("float", "float16"), "ai.onnx::Gather": ()}: an empty tuple means all types.  Raises
        UsageError for an unknown type.
        """
        for op, kinds in ops.items():
            strange = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if not _FLOAT.fullmatch(kind)]
            if strange:
                raise UsageError(
                    f"Invalid type {strange[0]!r} of {op} in the kernels of {title}. Give floating-point types in a "
                    'tuple, as in ("float", "float16", "bfloat16", "double").'
                )

        def table() -> dict[str, Any]:
            sets = [list(kinds) for kinds in dict.fromkeys(tuple(sorted(kinds)) for kinds in ops.values())]
            rows = []
            for op, kinds in ops.items():
                domain, _, short = op.rpartition("::")
                types = {ANY_FLOAT: sets.index(sorted(kinds))} if kinds else {}
                rows.append(["" if domain == "ai.onnx" else domain, short, 1, 0, types])
            return {"made_from": title, "exact": False, "type_sets": sets, "kernels": rows}

        return cls(name, title, table)


@dataclass(frozen=True)
class BaseTarget:
    """A deployment target."""

    name: str
    """Name, as in `--target`."""
    title: str
    """Name in sentences."""
    writes: tuple[str, ...]
    """Kinds of forms that it runs, best first."""
    runs: tuple[str, ...]
    """Kinds of forms that rules leave unchanged for it."""
    like: str = ""
    """Target that it equals for rules without a form of its kind."""
    providers: tuple[Provider, ...] = ()
    """Execution providers; kernels are looked up in the first by default."""
    ops: OpSet | None = None
    """Its own ops; None: none."""
    own_word: str = "an op"
    """Noun for its own ops, such as "a plugin"."""
    takes_libraries: bool = False
    """Whether it can load custom op libraries."""
    reads: "Callable[[NodeProto], bool] | None" = None
    """Whether it supports the op of a node; None: its kernels decide."""
    proof_runtime: "Callable[[str | None, Sequence[Path | str], float], TargetRuntime | None] | None" = None
    """Finds the runtime of replacements in proofs, from `--ep`, custom ops and the time limit of a run.  Returns None
    for ONNX Runtime's CPU provider, and raises RuntimeMissing if the runtime is not available.  None: no runtime."""

    def __post_init__(self) -> None:
        """Raises UsageError for kinds of forms or providers that are not tuples."""
        for name, kind, meant in (("writes", str, '("acme", "any")'), ("runs", str, '("acme",)')):
            given = getattr(self, name)
            if not isinstance(given, tuple) or not all(isinstance(one, kind) for one in given):
                raise UsageError(f"Invalid {name}={given!r} of the target {self.name!r}. Example: {meant}")
        if not isinstance(self.providers, tuple) or not all(isinstance(one, Provider) for one in self.providers):
            raise UsageError(f"Invalid providers of the target {self.name!r}. Give a tuple of Provider.")


def is_standard(node: "NodeProto") -> bool:
    """Whether a node is of an ONNX domain."""
    return not node.domain or node.domain.split(".")[:2] == ["ai", "onnx"]


def names() -> tuple[str, ...]:
    """The names of all installed targets: surgeon's own, then the others."""
    return (*OWN, *sorted({point.name for point in entry_points(TARGETS)}.difference(OWN)))


def target_of(name: str) -> BaseTarget:
    """The target of a name.  Raises UsageError if it is unknown, ambiguous, or cannot be loaded."""
    if name in OWN:
        return _own(name)
    found = [point for point in entry_points(TARGETS) if point.name == name]
    if not found:
        raise UsageError(f"Unknown target {name!r}. Choose one of {', '.join(names())}.")
    if len({point.value for point in found}) > 1:
        modules = " and ".join(point.value for point in found)
        raise UsageError(f"Several packages define the target {name!r} ({modules}). Remove all but one.")
    return _loaded(found[0])


def targets() -> Iterator[BaseTarget]:
    """All installed targets; warns of those that cannot be loaded."""
    yield from map(_own, OWN)
    for name in names()[len(OWN) :]:
        try:
            yield target_of(name)
        except UsageError as error:
            warnings.warn(str(error), stacklevel=2)


def takers(kind: str) -> Iterator[BaseTarget]:
    """The targets that support a kind of form."""
    return (target for target in targets() if kind in target.writes)


def provider(name: str) -> Provider | None:
    """The provider of a name; None if no target has it."""
    found = (one for target in targets() for one in target.providers if one.name == name)
    return next(found, None)


def beside(name: str) -> tuple[Provider, ...]:
    """The alternatives to a provider: those of the first target that has it, else of `ort`."""
    found = (target.providers for target in targets() if any(one.name == name for one in target.providers))
    return next(found, _own("ort").providers)


@cache
def owner(domain: str, op: str) -> BaseTarget | None:
    """The target that an op belongs to; None if it belongs to none."""
    return next((target for target in targets() if target.ops is not None and target.ops.has(domain, op)), None)


@cache
def _own(name: str) -> BaseTarget:
    found: BaseTarget = importlib.import_module(f"surgeon.targets.{name}").TARGET
    return found


def _loaded(point: "EntryPoint") -> BaseTarget:
    """The target of an entry point.  Raises UsageError if it cannot be loaded."""
    found = loaded(point, "target")
    if not isinstance(found, BaseTarget) or found.name != point.name:
        raise UsageError(f"{point.value} is not a surgeon.Target named {point.name!r}. Fix or remove its package.")
    return found
