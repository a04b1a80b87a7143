"""Turns autograd.Function and nn.Module classes into torch operators during an export.

Both exporters then see an operator instead of the Python code.  The operator runs the `forward` of the class, on
tensors and on fake tensors.  Its schema follows from the calls in one run of the module: tensors, numbers and strings
are arguments with the names of the parameters of `forward`; parameters and buffers of a module follow.
"""

import contextlib
import inspect
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from surgeon.errors import ExportError
from surgeon.torch.placeholders.export_plan import ExportState
from surgeon.torch.placeholders.placeholder import Placeholder, schema_of

NAMESPACE = "surgeon_scoped"
_running = threading.local()  # whether an operator is running the forward of its class


@dataclass(eq=False)
class _CallGroup:
    """Calls of a class with the same kinds of arguments, which share one operator."""

    placeholder: Placeholder
    """The placeholder of the class."""
    owner: Any
    """The module; None for a Function."""
    slots: "tuple[_Slot, ...]"
    """The leaves of the arguments."""
    tree: Any
    """The tree spec of the arguments."""
    returned: Any = None
    """The tree of the results, with True for each tensor."""
    op: Any = None
    """The operator, once it is defined."""
    state: tuple[str, ...] = ()
    """The names of the parameters and buffers of the module."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """One leaf of the arguments."""

    name: str
    """The argument name in the schema."""
    type: str | None
    """The type in the schema; None for a fixed value."""
    value: Any = None
    """The fixed value, or the class of a list argument."""

    def __hash__(self) -> int:
        return hash((self.name, self.type))


@dataclass(eq=False)
class _CallGroups:
    """The call groups of one export."""

    found: list[_CallGroup] = field(default_factory=list)
    """The groups in the order of their first calls."""

    def of(self, one: Placeholder, owner: Any, slots: "tuple[_Slot, ...]", tree: Any) -> _CallGroup | None:
        """The group of a call; None if there is none yet."""
        for group in self.found:
            if group.placeholder is one and group.owner is owner and group.slots == slots and group.tree == tree:
                return group
        return None


@contextlib.contextmanager
def classes_as_operators(
    plan: ExportState, module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[None]:
    """Replace the classes of the plan with operators inside the block.

    The module runs once, without gradients and on copies of the arguments, to record how its classes are called.
    """
    classes = [one for one in plan.placeholders if one.cls is not None]
    if not classes:
        yield
        return
    groups = _CallGroups()
    with _patched(classes, groups, None):
        _run(module, args, kwargs)
    with torch.library._scoped_library(NAMESPACE, "FRAGMENT") as library:
        for number, group in enumerate(groups.found):
            _define(library, group, number)
            plan.add(group.placeholder, group.op, schema_of(group.op))
        with _patched(classes, groups, plan):
            yield


def _run(module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Run the module in evaluation mode, and restore its state."""
    training = [one for one in module.modules() if one.training]

    def copy(leaf: Any) -> Any:
        return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf

    copied = pytree.tree_map(copy, (tuple(args), dict(kwargs)))
    try:
        module.eval()
        with restore_buffers(module), torch.no_grad(), torch.random.fork_rng(devices=[]):
            module(*copied[0], **copied[1])
    finally:
        for one in training:
            one.training = True


def write_count(tensor: torch.Tensor) -> int | None:
    """The number of writes into a tensor; None if torch does not count them."""
    return None if tensor.is_inference() else tensor._version


@contextlib.contextmanager
def restore_buffers(module: torch.nn.Module) -> Iterator[None]:
    """Restore the buffers that change inside the block: exporters run the module."""
    before = [
        (part, name, buffer, write_count(buffer), buffer.clone())
        for part in module.modules()
        for name, buffer in part.named_buffers(recurse=False)
        if not torch.nn.parameter.is_lazy(buffer)  # the run creates it
    ]
    try:
        yield
    finally:
        for part, name, buffer, count, value in before:
            if isinstance(part._buffers, dict):  # TorchScript keeps the same tensors
                part._buffers[name] = buffer
            if write_count(buffer) != count:
                with torch.no_grad():
                    buffer.copy_(value)


@contextlib.contextmanager
def _patched(classes: Sequence[Placeholder], groups: _CallGroups, plan: ExportState | None) -> Iterator[None]:
    """Replace the methods through which the classes are called.  plan: None while calls are only recorded."""
    before: list[tuple[Any, str, Any]] = []
    try:
        for one in classes:
            makers = {"apply": _apply, "forward": _function_forward} if one.is_function else {"forward": _forward}
            made = {name: make(one, groups, plan) for name, make in makers.items()}
            for name, replacement in made.items():
                before.append((one.cls, name, one.cls.__dict__.get(name)))
                setattr(one.cls, name, replacement)
        yield
    finally:
        for cls, name, old in reversed(before):
            if old is None:
                delattr(cls, name)
            else:
                setattr(cls, name, old)


def _apply(one: Placeholder, groups: _CallGroups, plan: ExportState | None) -> Any:
    """The replacement of `Function.apply`."""
    cls: Any = one.cls
    own = cls.apply  # bound to the class
    signature = call_signature(cls)

    def apply(klass: Any, *args: Any, **kwargs: Any) -> Any:
        if klass is not cls:
            return own.__func__(klass, *args, **kwargs)
        if _is_running_forward():
            return own(*args, **kwargs)
        named = signature.bind(*args, **kwargs).arguments
        return _call(one, None, named, run=lambda: own(*args, **kwargs), groups=groups, plan=plan)

    return classmethod(apply)


def _function_forward(one: Placeholder, groups: _CallGroups, plan: ExportState | None) -> Any:
    """The replacement of a Function's `forward`, for modules that have stored `f = Function.apply`."""
    cls: Any = one.cls
    own = cls.forward
    signature = call_signature(cls)
    has_context = _has_context(cls)

    def forward(*args: Any, **kwargs: Any) -> Any:
        if _is_running_forward() or (has_context and getattr(type(args[0]), "_forward_cls", cls) is not cls):
            return own(*args, **kwargs)
        named = signature.bind(*args[has_context:], **kwargs).arguments
        return _call(one, None, named, run=lambda: own(*args, **kwargs), groups=groups, plan=plan)

    forward.__signature__ = inspect.signature(own)  # type: ignore[attr-defined]  # the op's kernel reads it
    return staticmethod(forward)


def _forward(one: Placeholder, groups: _CallGroups, plan: ExportState | None) -> Any:
    """The replacement of the `forward` of a module class."""
    cls: Any = one.cls
    own = cls.forward
    signature = call_signature(cls)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_running_forward():
            return own(self, *args, **kwargs)
        named = signature.bind(*args, **kwargs).arguments
        return _call(one, self, named, run=lambda: own(self, *args, **kwargs), groups=groups, plan=plan)

    forward.__signature__ = inspect.signature(own)  # type: ignore[attr-defined]  # exporters read names from it
    return forward


def _call(
    one: Placeholder,
    owner: Any,
    named: dict[str, Any],
    *,
    run: Callable[[], Any],
    groups: _CallGroups,
    plan: ExportState | None,
) -> Any:
    """Handle one call: record its group first, and call the operator of its group during the export."""
    leaves, tree = pytree.tree_flatten(dict(named), is_leaf=_is_list)
    slots = tuple(_slots(named))
    group = groups.of(one, owner, slots, tree)
    if plan is None:
        read = {slot.name: leaf for leaf, slot in zip(leaves, slots, strict=True) if isinstance(leaf, torch.Tensor)}
        before = {name: write_count(leaf) for name, leaf in read.items()}
        results = _without_operators(run)
        changed = next((name for name, leaf in read.items() if write_count(leaf) != before[name]), None)
        if changed is not None:
            raise ExportError(
                f"{one.label} changes its argument {changed!r} in place, which a node cannot do. Change a copy "
                f"({changed}.clone()) and return it."
            )
        if group is None:
            kinds = pytree.tree_map(lambda leaf: True if isinstance(leaf, torch.Tensor) else _Fixed(leaf), results)
            groups.found.append(_CallGroup(one, owner, slots, tree=tree, returned=kinds))
        return results
    if group is None:
        raise ExportError(
            f"{one.label} is called with other kinds of arguments in the export than in a run of the module. Call it "
            "with the same kinds."
        )
    given = [leaf for leaf, slot in zip(leaves, slots, strict=True) if slot.type]
    state = _state(owner)
    made = group.op(*given, *(state[name] for name in group.state))
    tensors = list(made) if isinstance(made, (list, tuple)) else [made]
    return pytree.tree_map(lambda kind: tensors.pop(0) if kind is True else kind.value, group.returned)


@dataclass(frozen=True, slots=True)
class _Fixed:
    """A result that is not a tensor and is equal in every call."""

    value: Any
    """The result."""


def _define(library: Any, group: _CallGroup, number: int) -> None:
    """Define the operator of a group, with kernels for tensors and fake tensors.  number: the index of the group."""
    one = group.placeholder
    name = f"{re.sub(r'[^0-9A-Za-z_]', '_', one.op)}_{number}"
    group.state = tuple(_state(group.owner))
    taken = {slot.name for slot in group.slots}
    inputs = [f"{slot.type} {slot.name}" for slot in group.slots if slot.type]
    for state in group.state:
        plain = state.replace(".", "_")
        while plain in taken:
            plain += "_"
        taken.add(plain)
        inputs.append(f"Tensor {plain}")
    packed = next((kept for kept in _packed_weights(group.owner)), None)
    if packed is not None:
        raise ExportError(
            f"{one.label} keeps its weights in {packed}, which is not a tensor, so a node would lose them. Export "
            "the module before it is quantized."
        )
    count = sum(leaf is True for leaf in pytree.tree_leaves(group.returned))
    if not count:
        raise ExportError(f"{one.label} returns no tensor, so it cannot be a node. Use the operators in it.")
    returns = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
    library.define(f"{name}({', '.join(inputs)}) -> {returns}")
    kernel = _kernel(group)
    library.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", kernel, lib=library)
    group.op = getattr(getattr(torch.ops, NAMESPACE), name).default


def _kernel(group: _CallGroup) -> Callable[..., Any]:
    """The kernel of the operator: the `forward` of the class."""

    def kernel(*given: Any) -> Any:
        tensors = list(given)
        leaves = [_given(tensors.pop(0), slot) if slot.type else slot.value for slot in group.slots]
        named = pytree.tree_unflatten(leaves, group.tree)
        with torch.no_grad():
            results = _without_operators(lambda: _original(group, named, dict(zip(group.state, tensors, strict=True))))
        made = [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]
        fresh = [leaf.clone() if leaf._is_view() or any(leaf is one for one in given) else leaf for leaf in made]
        return fresh[0] if len(fresh) == 1 else tuple(fresh)

    return kernel


def _given(value: Any, slot: _Slot) -> Any:
    return slot.value(value) if str(slot.type).endswith("[]") else value


def _original(group: _CallGroup, named: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    cls: Any = group.placeholder.cls
    bound = inspect.BoundArguments(call_signature(cls), dict(named))
    if group.placeholder.is_function:
        return cls.apply(*bound.args, **bound.kwargs)
    unhooked = _WithoutHooks(group.owner, cls.forward)
    swapped = {f"inner.{name}": value for name, value in state.items()}
    return torch.func.functional_call(unhooked, swapped, bound.args, bound.kwargs)


class _WithoutHooks(torch.nn.Module):
    """A module without its hooks, which have already run when its operator is called."""

    def __init__(self, inner: torch.nn.Module, run: Callable[..., Any]) -> None:
        super().__init__()
        self.inner, self.run = inner, run

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(self.inner, *args, **kwargs)


def call_signature(cls: Any) -> inspect.Signature:
    """The signature of a call: the parameters of `forward` without the context or self."""
    signature = inspect.signature(cls.forward)
    parameters = list(signature.parameters.values())
    return signature.replace(parameters=parameters[1:] if _has_context(cls) else parameters)


def _has_context(cls: Any) -> bool:
    """Whether `forward` takes a context or self before the arguments."""
    is_function = issubclass(cls, torch.autograd.Function)
    return not is_function or cls.setup_context is torch.autograd.Function.setup_context


def _state(owner: Any) -> dict[str, Any]:
    """Parameters and buffers of a module by name; empty for a Function."""
    return {} if owner is None else {**dict(owner.named_parameters()), **dict(owner.named_buffers())}


def _packed_weights(owner: Any) -> Iterator[str]:
    """The paths of attributes that hold a C++ object of torch, as in quantised modules."""
    for path, part in owner.named_modules() if owner is not None else ():
        for name, value in vars(part).items():
            if isinstance(value, torch.ScriptObject):
                yield f"{path}.{name}" if path else name


def _slots(named: Mapping[str, Any]) -> Iterator[_Slot]:
    """One slot for each leaf, named after its argument, with a number if that holds several."""
    for name, value in named.items():
        leaves = pytree.tree_leaves(value, is_leaf=_is_list)
        is_single = len(leaves) == 1 and leaves[0] is value
        for place, leaf in enumerate(leaves):
            kind = _type(leaf)
            yield _Slot(name if is_single else f"{name}_{place}", kind, _container(leaf) if kind else leaf)


_TYPES: tuple[tuple[Any, str], ...] = (
    (torch.Tensor, "Tensor"),
    (bool, "bool"),
    ((int, torch.SymInt), "SymInt"),
    ((float, torch.SymFloat), "float"),
    (str, "str"),
    (torch.dtype, "ScalarType"),
)


def _type(leaf: Any) -> str | None:
    """The type of a leaf in a schema; None if a schema cannot hold it."""
    if leaf is None:
        return "Tensor?"
    if _is_list(leaf):
        kinds = {_type(one) for one in leaf}
        kinds = {"float"} if kinds == {"SymInt", "float"} else kinds
        return f"{kinds.pop()}[]" if len(kinds) == 1 and None not in kinds else None
    return next((name for types, name in _TYPES if isinstance(leaf, types)), None)


def _container(leaf: Any) -> Any:
    """The class of a list or tuple, which an operator turns into a list; None for other values."""
    return type(leaf) if _is_list(leaf) else None


def _is_list(value: Any) -> bool:
    plain = (bool, int, float, str, torch.SymInt, torch.SymFloat)
    return type(value) in (list, tuple) and bool(value) and all(isinstance(one, plain) for one in value)


def _is_running_forward() -> bool:
    return bool(getattr(_running, "depth", 0))


def _without_operators(run: Callable[[], Any]) -> Any:
    """Run with the original methods of the classes."""
    _running.depth = getattr(_running, "depth", 0) + 1
    try:
        return run()
    finally:
        _running.depth -= 1
