"""Reports whether an exporter supports an operator, and which operators of a module it does not support."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from surgeon.errors import UsageError
from surgeon.ops.schemas.op_schema import history, operators
from surgeon.torch.exporters.builtin_mappings import (
    DEFAULT_OPSET,
    DYNAMO,
    OPSETS,
    is_decomposed,
    mapped_opsets,
    require_exporter,
    require_module,
)
from surgeon.torch.exporters.captured_calls import OperatorCall, calls_by_dynamo, calls_by_torchscript
from surgeon.torch.placeholders.op_names import UnknownOperator
from surgeon.torch.placeholders.placeholder import OperatorLike, mutation_message, placeholder
from surgeon.torch.placeholders.registration import registrations

_SHAPES = ((3, 3), (2, 3), (2, 3, 4), (2, 3, 4, 4), (3,), ())


@dataclass(frozen=True, slots=True)
class ExporterSupport:
    """Whether an exporter supports an operator.  It is true or false: `if surgeon.torch.is_supported(...)`."""

    op: str
    """The name of the operator in torch."""
    exporter: str
    """"dynamo" or "torchscript"."""
    opset: int
    """The requested opset."""
    supported: bool
    """Whether the exporter writes the operator at that opset."""
    opsets: tuple[int, ...]
    """All opsets at which the exporter writes it."""
    becomes: tuple[str, ...]
    """The operators that it is decomposed into; empty if it is mapped directly."""
    reason: str
    """The reason; for an unsupported operator, the missing mapping and the remedy."""

    @property
    def since(self) -> int | None:
        """The first opset at which the exporter writes it; None for never."""
        return min(self.opsets, default=None)

    def __bool__(self) -> bool:
        return self.supported

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class Unsupported:
    """An operator of a module that an exporter cannot write."""

    name: str
    """The Python name, such as `torch.i0`."""
    op: str
    """The name in torch, such as `aten::i0`."""
    missing: tuple[str, ...]
    """The operators without a mapping: parts of its decomposition, or only itself."""
    becomes: tuple[str, ...]
    """The operators that it is decomposed into; empty if it is not decomposed."""
    where: tuple[tuple[str, str], ...]
    """The module path and `file:line` of each call."""
    since: int | None
    """The first opset at which the exporter writes it; None for never."""
    placeholder: str
    """The name for `placeholders=[...]`."""
    reason: str
    """The missing mapping and the remedy."""

    @property
    def count(self) -> int:
        """The number of calls."""
        return len(self.where)

    def __str__(self) -> str:
        times = "once" if self.count == 1 else f"{self.count} times"
        places = dict.fromkeys(f"{line} in {module or 'the module itself'}" for module, line in self.where)
        return f"{self.name}, {times} ({'; '.join(places)}): {self.reason}"


def is_supported(op: OperatorLike, *, exporter: str = DYNAMO, opset: int | None = None) -> ExporterSupport:
    """Whether an exporter of torch can write an operator at an opset.

    Operators registered with surgeon.torch.register are supported.  An operator that torch decomposes is supported if
    all its parts are; surgeon finds the parts with generated arguments.  If the operator accepts none of these, it
    counts as unsupported.  An operator that torch does not have is unsupported, and the reason lists similar names.

    Args:
        op: "ns::name" or "ns::name.overload", an OpOverload or OpOverloadPacket, or a torch.library custom op.  Without
            an overload it is supported if one of its overloads on tensors is.
        exporter: "dynamo" or "torchscript".
        opset: of ai.onnx; 20 by default, as in torch.

    Returns:
        The answer, which is true or false, with the first opset (`since`) and the `reason`.

    Raises:
        UsageError: `op` is not an operator, or the exporter cannot write the opset.

    Examples:
        >>> import surgeon.torch
        >>> bool(surgeon.torch.is_supported("aten::relu")), bool(surgeon.torch.is_supported("aten::nope"))
        (True, False)
    """
    require_exporter(exporter, opset)
    opset = DEFAULT_OPSET if opset is None else opset
    if isinstance(op, type):
        raise UsageError(f"{op.__name__} is a class. Use surgeon.torch.unsupported with a module that calls it.")
    try:
        found = placeholder(op, asked=False)
    except UnknownOperator as error:
        return ExporterSupport(str(op), exporter, opset, supported=False, opsets=(), becomes=(), reason=str(error))
    has_overload = "." in found.label.partition("::")[2]
    asked = found.ops[:1] if has_overload else _on_tensors(found.ops)
    answers = []
    for one in asked:
        answers.append(_support(one, exporter, opset))
        if answers[-1]:
            return answers[-1]
    return answers[0]


def unsupported(
    module: Any,
    args: Sequence[Any] | torch.Tensor,
    *,
    kwargs: Mapping[str, Any] | None = None,
    exporter: str = DYNAMO,
    opset: int | None = None,
) -> list[Unsupported]:
    """The operators of a module that an exporter cannot write, in the order in which they are called.

    The list is empty if all operators have a mapping.  Only an export shows whether a mapping rejects its arguments,
    for example a window that is not constant.

    Args:
        module: the module.
        args: arguments of the module, in order; a single tensor needs no tuple.
        kwargs: further arguments, by name.
        exporter: "dynamo" or "torchscript".
        opset: of ai.onnx; 20 by default, as in torch.

    Returns:
        For each operator its name, its calls, and why it cannot be written.

    Raises:
        UsageError: torch cannot capture the module, or the exporter or opset is unknown.

    Examples:
        >>> import torch, surgeon.torch
        >>> surgeon.torch.unsupported(torch.nn.GELU(), torch.randn(2, 3))
        []
    """
    require_exporter(exporter, opset)
    require_module(module)
    opset = DEFAULT_OPSET if opset is None else opset
    args = (args,) if isinstance(args, torch.Tensor) else args
    look = calls_by_dynamo if exporter == DYNAMO else calls_by_torchscript
    calls: dict[str, list[OperatorCall]] = {}
    for call in look(module, args, kwargs or {}, opset):
        since = _registered_since(call.op)
        is_missing = any(opset not in known for known in call.decomposition.values())
        if is_missing if since is None else since > opset:
            calls.setdefault(call.op, []).append(call)
    return [_unsupported(same, exporter, opset) for same in calls.values()]


def _support(op: Any, exporter: str, opset: int) -> ExporterSupport:
    name = op.name()
    known = mapped_opsets(op, exporter)

    def answer(opsets: Iterable[int], why: str, becomes: Iterable[str] = ()) -> ExporterSupport:
        found = tuple(opsets)
        return ExporterSupport(
            name, exporter, opset, supported=opset in found, opsets=found, becomes=tuple(becomes), reason=why
        )

    since = _registered_since(name)
    if since is not None:
        registered = f"{name} is registered by surgeon.torch.register"
        if since <= opset:
            return answer((one for one in OPSETS[exporter] if one >= since or one in known), f"{registered}.")
        later = (one for one in OPSETS[exporter] if one >= since)
        return answer(later, f"{registered} for opset {since} and above. Register it for opset {opset} too.")
    if op._schema.is_mutable and not name.startswith("aten::"):
        return answer((), f"{mutation_message(op._schema.name)}.")
    if opset in known:
        return answer(known, f"The {exporter} exporter has a mapping for {name}.")
    pieces: Mapping[str, Sequence[int]] | None = {}
    if exporter == DYNAMO and is_decomposed(op, opset):
        pieces = _pieces(op, opset)
    if pieces is None:
        return answer(
            known,
            f"torch decomposes {name} for the exporter, and the parts depend on its arguments. Use "
            "surgeon.torch.unsupported with a module that calls it, or export it as a placeholder.",
        )
    if set(pieces) <= {name}:
        return answer(known, reason(name, [name], known, exporter=exporter, opset=opset))
    everywhere = [one for one in OPSETS[exporter] if one in known or all(one in has for has in pieces.values())]
    missing = [one for one, has in pieces.items() if opset not in has]
    why = f"The {exporter} exporter decomposes {name} into {_joined(pieces)}, and has mappings for all of these."
    return answer(
        everywhere, reason(name, missing, everywhere, exporter=exporter, opset=opset) if missing else why, pieces
    )


def reason(op: str, missing: Sequence[str], opsets: Sequence[int], exporter: str, opset: int) -> str:
    """The missing mapping and the remedy."""
    decomposed = "" if list(missing) == [op] else f", into which torch decomposes {op}"
    if newer := [one for one in opsets if one > opset]:
        return (
            f"At opset {opset} the {exporter} exporter has no mapping for {_joined(missing)}{decomposed}. Export at "
            f"opset {newer[0]} or later, which has one."
        )
    if any(one.startswith("auto_functionalized") for one in missing):
        return f"{mutation_message(op.partition('.')[0])}."
    what = f"The {exporter} exporter has no mapping for {_joined(missing)}{decomposed}"
    plain = op.partition(".")[0]
    if onnx := _onnx_op(plain):
        return (
            f"{what}, although {onnx} exists. Export with placeholders=[{plain!r}] and rewrite that node, or register "
            "a mapping with surgeon.torch.register."
        )
    return (
        f"{what}, and no ONNX op has its name. Export with placeholders=[{plain!r}], and rewrite that node with a rule "
        "or give the runtime a kernel for it."
    )


def _unsupported(calls: Sequence[OperatorCall], exporter: str, opset: int) -> Unsupported:
    first = calls[0]
    pieces: dict[str, tuple[int, ...]] = {}
    for call in calls:
        pieces.update(call.decomposition)
    missing = tuple(name for name, known in pieces.items() if opset not in known)
    opsets = [one for one in OPSETS[exporter] if all(one in known for known in pieces.values())]
    becomes = () if set(pieces) == {first.op} else tuple(pieces)
    places = tuple((call.module, call.line) for call in calls)
    why = reason(first.op, missing, opsets, exporter=exporter, opset=opset)
    plain = first.op.partition(".")[0]
    return Unsupported(
        first.name,
        first.op,
        missing,
        becomes=becomes,
        where=places,
        since=min(opsets, default=None),
        placeholder=plain,
        reason=why,
    )


def _on_tensors(found: Sequence[Any]) -> Sequence[Any]:
    """The overloads with the name of the first one that take a tensor; only the first if none does."""
    same = [one for one in found if one._schema.name == found[0]._schema.name]
    return [one for one in same if any("Tensor" in str(item.type) for item in one._schema.arguments)] or same[:1]


@cache
def _pieces(op: Any, opset: int) -> dict[str, tuple[int, ...]] | None:
    """The decomposition of an overload, found with generated arguments; None if it accepts none of them."""
    for shape, is_size in itertools.product(_SHAPES, (False, True)):
        made = _example_arguments(op, shape, is_size)
        if made is None:
            return None
        module = _OverloadCall(op, made)
        tensors = [value for value in made.values() if isinstance(value, torch.Tensor)]
        try:
            calls = list(calls_by_dynamo(module, tensors, {}, opset))
        except UsageError:
            continue
        return {name: known for call in calls for name, known in call.decomposition.items()}
    return None


class _OverloadCall(torch.nn.Module):
    """A module that calls one overload; its arguments are the tensors."""

    def __init__(self, op: Any, values: Mapping[str, Any]) -> None:
        super().__init__()
        self.op, self.values = op, dict(values)

    def forward(self, *tensors: Any) -> Any:
        given = iter(tensors)
        values = {name: next(given) if isinstance(one, torch.Tensor) else one for name, one in self.values.items()}
        positional = [item.name for item in self.op._schema.arguments if not item.kwarg_only]
        named = {name: value for name, value in values.items() if name not in positional}
        return self.op(*(values[name] for name in positional if name in values), **named)


def _example_arguments(op: Any, shape: tuple[int, ...], is_size: bool) -> dict[str, Any] | None:
    """Values for the arguments without a default; None if one of them cannot be generated.

    is_size: fill lists of integers with the last size of the tensors instead of 1.
    """
    plain = {"int": 1, "float": 0.5, "Scalar": 0.5, "number": 0.5, "bool": False, "SymInt": 1}
    made: dict[str, Any] = {}
    for item in op._schema.arguments:
        kind = str(item.type)
        if kind == "Tensor":
            made[item.name] = torch.full(shape, 0.5)
        elif item.has_default_value():
            continue
        elif kind.startswith("Optional["):
            made[item.name] = None
        elif kind in plain:
            made[item.name] = plain[kind]
        elif kind in ("List[int]", "List[SymInt]"):
            made[item.name] = list(shape[-1:]) if is_size else [1] * (item.N or max(len(shape), 1))
        elif kind == "List[float]":
            made[item.name] = [1.0] * (item.N or 1)
        else:
            return None
    return made


def _registered_since(op: str) -> int | None:
    """The first opset of a registration by surgeon.torch.register for an operator; None if there is none."""
    found = [
        since
        for entry in registrations(())
        if any(op in (one.name(), one._schema.name) for one in entry.placeholder.ops)
        for since in entry.symbolics
    ]
    return min(found, default=None)


def _onnx_op(op: str) -> str | None:
    """The op of ONNX or ONNX Runtime with the same name, and its first opset; None if there is none."""
    base = op.partition("::")[2].removeprefix("special_").replace("_", "")
    names = (base, f"{base}alization")  # rms_norm is RMSNormalization
    for domain in ("", "com.microsoft"):
        for name in operators(domain):
            if name.lower() in names:
                since = min(one.since_version for one in history(domain, name))
                return f"{domain}::{name}" if domain else f"ONNX's {name} (from opset {since} on)"
    return None


def _joined(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
