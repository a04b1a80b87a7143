"""Placeholders: operators and classes that a user names, with the domain and op type of their nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch._library.custom_ops import OPDEFS

from surgeon.errors import UsageError
from surgeon.ops.torch_schema import TorchSchema, parse
from surgeon.torch.placeholders.call_binding import is_same_operation
from surgeon.torch.placeholders.op_names import overloads, related_overloads, split

OperatorLike: TypeAlias = (
    Any  # "ns::name", an OpOverload, an OpOverloadPacket, an autograd.Function or an nn.Module class
)


@dataclass(eq=False)
class Placeholder:
    """An operation that becomes one node."""

    label: str
    """The name that the user gives."""
    domain: str
    """The domain of the node."""
    op: str
    """The op type of the node."""
    ops: tuple[Any, ...] = ()
    """The overloads of torch, the one that determines the inputs first; empty for a class."""
    cls: type | None = None
    """The autograd.Function or nn.Module class, whose operators exist only during an export."""
    is_explicit: bool = True
    """Whether the export names it, so that it must occur; otherwise it is registered for all exports."""
    canonical: dict[Any, TorchSchema] = field(default_factory=dict)
    """The schema that splits the arguments of each overload."""

    def __post_init__(self) -> None:
        self.canonical.update(_canonical(self.ops))

    @property
    def name(self) -> str:
        """`domain::op` of the node."""
        return f"{self.domain}::{self.op}"

    @property
    def is_function(self) -> bool:
        """Whether it is an autograd.Function."""
        return self.cls is not None and issubclass(self.cls, torch.autograd.Function)


def schema_of(op: Any) -> TorchSchema:
    """The schema of an OpOverload."""
    return parse(str(op._schema))


def is_deterministic(op: Any) -> bool:
    """Whether equal calls are known to return equal results, so that they may be merged.

    A custom operator may keep a state or draw random numbers without a tag; only the tags of ATen are complete.
    """
    schema = op._schema
    is_random = torch.Tag.nondeterministic_seeded in op.tags
    return bool(schema.name.startswith("aten::")) and not is_random and not schema.is_mutable


def placeholder(named: OperatorLike, name: str | None = None, *, asked: bool = True) -> Placeholder:
    """The placeholder that a user names.  name: `domain::Name` of the node, by default that of the operator.

    Raises UsageError for an unknown operator, and for other objects than operators and autograd.Function or nn.Module
    classes.
    """
    if isinstance(named, Placeholder):
        return named
    if isinstance(named, type) and issubclass(named, (torch.autograd.Function, torch.nn.Module)):
        default = f"{named.__module__.partition('.')[0]}::{named.__name__}"
        domain, op = split(name or default, f"The name for {named.__name__}")
        return Placeholder(named.__name__, domain, op, cls=named, is_explicit=asked)
    text = _text(named)
    found, base = overloads(text)
    domain, op = split(name or base, f"The name for {text}")
    first = found[0]
    main = schema_of(first)
    same = [
        one for one in related_overloads(base) if is_same_operation(main, schema_of(one)) or _is_inplace(one, found)
    ]
    listed = text.partition("::")[2].partition(".")[2]
    siblings = [one for one in found[1:] if not listed or is_same_operation(main, schema_of(one))]
    return Placeholder(text, domain, op, (first, *siblings, *same), is_explicit=asked)


def placeholders(named: Iterable[OperatorLike] | Mapping[OperatorLike, str]) -> list[Placeholder]:
    """The placeholders of an export; a mapping also names the nodes.  Raises UsageError for one named twice."""
    if isinstance(named, str) or not isinstance(named, Iterable):
        each = [part.strip() for part in named.split(",")] if isinstance(named, str) else [named]
        raise UsageError(f"Give placeholders as a list or a mapping, such as placeholders={each!r}.")
    pairs = named.items() if isinstance(named, Mapping) else ((one, None) for one in named)
    found = [placeholder(one, name) for one, name in pairs]
    seen: dict[Any, Placeholder] = {}
    for one in found:
        for key in one.ops or (one.cls,):
            if key in seen and seen[key] is not one:
                raise UsageError(
                    f"{seen[key].label} and {one.label} are placeholders for the same operator. Give it once."
                )
            seen[key] = one
    return found


def _text(named: OperatorLike) -> str:
    """`ns::name.overload` of an operator."""
    if isinstance(named, str):
        return named
    if isinstance(named, torch._ops.OpOverload):
        return f"{named._schema.name}.{named._overloadname}"
    if isinstance(named, torch._ops.OpOverloadPacket):
        return str(named._qualified_op_name)
    if isinstance(named, torch.library.CustomOpDef):
        return str(named._qualname)
    if isinstance(named, torch.nn.Module):
        raise UsageError(f"A placeholder is a module class, not a module. Give {type(named).__name__} itself.")
    what = getattr(named, "__name__", None) or repr(named)
    raise UsageError(
        f"{what} is not an operator that an exporter sees. Give 'aten::{what}', torch.ops.aten.{what}, or an "
        "autograd.Function or nn.Module class."
    )


def _is_inplace(one: Any, of: tuple[Any, ...]) -> bool:
    names = [item.name for item in one._schema.arguments]
    return one._schema.name.endswith("_") and any(
        one._schema.name == f"{other._schema.name}_" and names == [item.name for item in other._schema.arguments]
        for other in of
    )


def _canonical(ops: tuple[Any, ...]) -> dict[Any, TorchSchema]:
    """The schema that splits the arguments of each overload: that of an earlier equivalent one with more tensors."""
    found: dict[Any, TorchSchema] = {}
    for op in ops:
        own = schema_of(op)
        better = [one for one in found.values() if is_same_operation(own, one)]
        tensors = [one for one in better if len(one.tensors) >= len(own.tensors)]
        found[op] = tensors[0] if tensors else own
    for op, schema in found.items():  # the overload with most tensors may come later
        richer = [
            one for one in found.values() if is_same_operation(schema, one) and len(one.tensors) > len(schema.tensors)
        ]
        found[op] = max(richer, key=lambda one: len(one.tensors)) if richer else schema
    return found


def require_exportable(one: Placeholder) -> None:
    """Raise UsageError for an operation that no node can represent, and for one without a fake kernel."""
    if one.domain == "ai.onnx":
        raise UsageError(
            f"{one.label} would be a node of ai.onnx, which has its own ops. Give the node another domain, and "
            "register its replacement with surgeon.torch.register."
        )
    for op in one.ops[:1]:
        if op._schema.is_mutable and one.cls is None:
            raise UsageError(f"{mutation_message(op._schema.name)}.")
        if any("Tensor" not in str(item.type) or "List" in str(item.type) for item in op._schema.returns):
            raise UsageError(
                f"{op._schema.name} returns a list or a number, but a node returns tensors. Use a module class that "
                "calls it as the placeholder."
            )
        if not op._schema.returns:
            raise UsageError(f"{op._schema.name} returns nothing, so a model cannot contain it. Leave it out.")
        if not has_fake(op):
            raise UsageError(
                f"{op._schema.name} has no fake kernel, so the shapes after it would be unknown. Register one with "
                f"torch.library.register_fake({op._schema.name!r})."
            )


def mutation_message(name: str) -> str:
    """The message on an operator that writes into its arguments, without a full stop."""
    problem = f"{name} changes its arguments in place, which a node cannot do"
    if name.startswith("aten::"):
        return f"{problem}. Use the operator that returns the result instead"
    return f"{problem}. Use a module class that calls it as the placeholder, or an operator that returns the result"


def has_fake(op: Any) -> bool:
    """Whether torch infers the output shapes and dtypes of an overload without running it."""
    computed = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    if has_own_fake(op) or op._schema.name in OPDEFS:
        return has_own_fake(op)
    return any(computed(op.name(), where) for where in ("Meta", "CompositeImplicitAutograd"))


def has_own_fake(op: Any) -> bool:
    """Whether torch.library has a fake kernel for an overload."""
    custom = OPDEFS.get(op._schema.name)
    if custom is not None:
        return custom._abstract_fn is not None
    return torch._library.simple_registry.singleton.find(op.name()).fake_impl.kernel is not None
