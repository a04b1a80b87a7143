"""Classes as operators for the time of an export: what is an autograd.Function or an nn.Module class otherwise.

Both exporters then meet an operator where they would trace through Python.  The op runs the class's own `forward`, on
tensors and on fake ones.  Its schema is taken from the calls of one run of the module: tensors, numbers and strings are
arguments by the names that `forward` gives them; a module's parameters and buffers come after them.
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
_within = threading.local()  # whether an op is running the class's own forward just now


@dataclass(eq=False)
class _Site:
    """Calls of a class that are alike: one op for all of them.

    owner: the module, None for a Function.  slots: what each leaf of the arguments is; tree: how they hang together.
    returned: the tree of the results, with True where a tensor is.
    """

    placeholder: Placeholder
    owner: Any
    slots: "tuple[_Slot, ...]"
    tree: Any
    returned: Any = None
    op: Any = None
    state: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Slot:
    """One leaf of the arguments.  type: in a schema; "" for what is fixed, whose value it then holds."""

    name: str
    type: str
    value: Any = None

    def __hash__(self) -> int:
        return hash((self.name, self.type))


@dataclass(eq=False)
class _Sites:
    """All sites of one export, found by the kind of a call."""

    found: list[_Site] = field(default_factory=list)

    def of(self, one: Placeholder, owner: Any, slots: "tuple[_Slot, ...]", tree: Any) -> _Site | None:
        """The site of a call, None for a kind of call that has not been seen."""
        for site in self.found:
            if site.placeholder is one and site.owner is owner and site.slots == slots and site.tree == tree:
                return site
        return None


@contextlib.contextmanager
def classes_as_operators(
    plan: ExportState, module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[None]:
    """Let the plan's classes be operators inside the block; undone also on failure.

    The module is run once, without gradients and on copies of the arguments, to see how its classes are called.
    """
    classes = [one for one in plan.placeholders if one.cls is not None]
    if not classes:
        yield
        return
    sites = _Sites()
    with _patched(classes, sites, None):
        _run(module, args, kwargs)
    with torch.library._scoped_library(NAMESPACE, "FRAGMENT") as library:
        for number, site in enumerate(sites.found):
            _define(library, site, number)
            plan.add(site.placeholder, site.op, schema_of(site.op))
        with _patched(classes, sites, plan):
            yield


def _run(module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Run the module as it will be used, and leave it as it was."""
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


def stamp(tensor: torch.Tensor) -> int | None:
    """What changes with each write into a tensor; None where torch does not count them."""
    return None if tensor.is_inference() else tensor._version


@contextlib.contextmanager
def restore_buffers(module: torch.nn.Module) -> Iterator[None]:
    """Put the buffers back that are written into, or replaced, inside the block: exporters run the module."""
    before = [
        (part, name, buffer, stamp(buffer), buffer.clone())
        for part in module.modules()
        for name, buffer in part.named_buffers(recurse=False)
        if not torch.nn.parameter.is_lazy(buffer)  # it is made by the run
    ]
    try:
        yield
    finally:
        for part, name, buffer, count, value in before:
            if isinstance(part._buffers, dict):  # of TorchScript they stay the same tensors
                part._buffers[name] = buffer
            if stamp(buffer) != count:
                with torch.no_grad():
                    buffer.copy_(value)


@contextlib.contextmanager
def _patched(classes: Sequence[Placeholder], sites: _Sites, plan: ExportState | None) -> Iterator[None]:
    """Replace what the classes are called by.  plan: None while the calls are only looked at."""
    before: list[tuple[Any, str, Any]] = []
    try:
        for one in classes:
            stand_ins = {"apply": _apply, "forward": _aliased} if one.is_function else {"forward": _forward}
            made = {name: make(one, sites, plan) for name, make in stand_ins.items()}
            for name, stand_in in made.items():
                before.append((one.cls, name, one.cls.__dict__.get(name)))
                setattr(one.cls, name, stand_in)
        yield
    finally:
        for cls, name, old in reversed(before):
            if old is None:
                delattr(cls, name)
            else:
                setattr(cls, name, old)


def _apply(one: Placeholder, sites: _Sites, plan: ExportState | None) -> Any:
    """What stands for `Function.apply`."""
    cls: Any = one.cls
    own = cls.apply  # bound to the class
    signature = call_signature(cls)

    def apply(klass: Any, *args: Any, **kwargs: Any) -> Any:
        if klass is not cls:
            return own.__func__(klass, *args, **kwargs)
        if _is_within():
            return own(*args, **kwargs)
        named = signature.bind(*args, **kwargs).arguments
        return _call(one, None, named, run=lambda: own(*args, **kwargs), sites=sites, plan=plan)

    return classmethod(apply)


def _aliased(one: Placeholder, sites: _Sites, plan: ExportState | None) -> Any:
    """What stands for a Function's `forward`, which is met where somebody has kept `f = Function.apply` before."""
    cls: Any = one.cls
    own = cls.forward
    signature = call_signature(cls)
    has_context = _has_context(cls)

    def forward(*args: Any, **kwargs: Any) -> Any:
        if _is_within() or (has_context and getattr(type(args[0]), "_forward_cls", cls) is not cls):
            return own(*args, **kwargs)
        named = signature.bind(*args[has_context:], **kwargs).arguments
        return _call(one, None, named, run=lambda: own(*args, **kwargs), sites=sites, plan=plan)

    forward.__signature__ = inspect.signature(own)  # type: ignore[attr-defined]  # the op's kernel reads it
    return staticmethod(forward)


def _forward(one: Placeholder, sites: _Sites, plan: ExportState | None) -> Any:
    """What stands for a module class's `forward`."""
    cls: Any = one.cls
    own = cls.forward
    signature = call_signature(cls)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_within():
            return own(self, *args, **kwargs)
        named = signature.bind(*args, **kwargs).arguments
        return _call(one, self, named, run=lambda: own(self, *args, **kwargs), sites=sites, plan=plan)

    forward.__signature__ = inspect.signature(own)  # type: ignore[attr-defined]  # exporters read names from it
    return forward


def _call(
    one: Placeholder, owner: Any, named: dict[str, Any], run: Callable[[], Any], sites: _Sites, plan: ExportState | None
) -> Any:
    """One call: note its kind while looking, and send it to the op of its kind while exporting."""
    leaves, tree = pytree.tree_flatten(dict(named), is_leaf=_is_list)
    slots = tuple(_slots(named))
    site = sites.of(one, owner, slots, tree)
    if plan is None:
        read = {slot.name: leaf for leaf, slot in zip(leaves, slots, strict=True) if isinstance(leaf, torch.Tensor)}
        before = {name: stamp(leaf) for name, leaf in read.items()}
        results = _inside(run)
        changed = next((name for name, leaf in read.items() if stamp(leaf) != before[name]), None)
        if changed is not None:
            raise ExportError(
                f"{one.label} changes its argument {changed!r} in place, and a node cannot; let it work on a copy "
                f"({changed}.clone()) and return that."
            )
        if site is None:
            kinds = pytree.tree_map(lambda leaf: True if isinstance(leaf, torch.Tensor) else _Fixed(leaf), results)
            sites.found.append(_Site(one, owner, slots, tree=tree, returned=kinds))
        return results
    if site is None:
        raise ExportError(
            f"{one.label} is called with other kinds of arguments in the export than when the module is run; let it be "
            "called with the same ones."
        )
    given = [leaf for leaf, slot in zip(leaves, slots, strict=True) if slot.type]
    state = _state(owner)
    made = site.op(*given, *(state[name] for name in site.state))
    tensors = list(made) if isinstance(made, (list, tuple)) else [made]
    return pytree.tree_map(lambda kind: tensors.pop(0) if kind is True else kind.value, site.returned)


@dataclass(frozen=True, slots=True)
class _Fixed:
    """A result that is no tensor, and is the same in every call."""

    value: Any


def _define(library: Any, site: _Site, number: int) -> None:
    """Define the op of a site, with kernels for tensors and for fake ones.  number: of the sites of one export."""
    one = site.placeholder
    name = f"{re.sub(r'[^0-9A-Za-z_]', '_', one.op)}_{number}"
    site.state = tuple(_state(site.owner))
    taken = {slot.name for slot in site.slots}
    inputs = [f"{slot.type} {slot.name}" for slot in site.slots if slot.type]
    for state in site.state:
        plain = state.replace(".", "_")
        while plain in taken:
            plain += "_"
        taken.add(plain)
        inputs.append(f"Tensor {plain}")
    packed = next((kept for kept in _packed(site.owner)), None)
    if packed is not None:
        raise ExportError(
            f"{one.label} keeps its weights in {packed}, which is no tensor, so that the node would lose them; export "
            "the module before it is quantised."
        )
    count = sum(leaf is True for leaf in pytree.tree_leaves(site.returned))
    if not count:
        raise ExportError(f"{one.label} returns no tensor, so it cannot be one node; name what it calls instead.")
    returns = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
    library.define(f"{name}({', '.join(inputs)}) -> {returns}")
    kernel = _kernel(site)
    library.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", kernel, lib=library)
    site.op = getattr(getattr(torch.ops, NAMESPACE), name).default


def _kernel(site: _Site) -> Callable[..., Any]:
    """What the op runs: the class's own `forward`."""

    def kernel(*given: Any) -> Any:
        tensors = list(given)
        leaves = [_given(tensors.pop(0), slot) if slot.type else slot.value for slot in site.slots]
        named = pytree.tree_unflatten(leaves, site.tree)
        with torch.no_grad():
            results = _inside(lambda: _original(site, named, dict(zip(site.state, tensors, strict=True))))
        made = [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]
        fresh = [leaf.clone() if leaf._is_view() or any(leaf is one for one in given) else leaf for leaf in made]
        return fresh[0] if len(fresh) == 1 else tuple(fresh)

    return kernel


def _given(value: Any, slot: _Slot) -> Any:
    return slot.value(value) if slot.type.endswith("[]") else value


def _original(site: _Site, named: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    cls: Any = site.placeholder.cls
    bound = inspect.BoundArguments(call_signature(cls), dict(named))
    if site.placeholder.is_function:
        return cls.apply(*bound.args, **bound.kwargs)
    bare = _Bare(site.owner, cls.forward)
    swapped = {f"inner.{name}": value for name, value in state.items()}
    return torch.func.functional_call(bare, swapped, bound.args, bound.kwargs)


class _Bare(torch.nn.Module):
    """A module without its hooks, which have run already when its op is called."""

    def __init__(self, inner: torch.nn.Module, run: Callable[..., Any]) -> None:
        super().__init__()
        self.inner, self.run = inner, run

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(self.inner, *args, **kwargs)


def call_signature(cls: Any) -> inspect.Signature:
    """What `Function.apply` and a module take: the parameters of `forward`, without the context and without self."""
    signature = inspect.signature(cls.forward)
    parameters = list(signature.parameters.values())
    return signature.replace(parameters=parameters[1:] if _has_context(cls) else parameters)


def _has_context(cls: Any) -> bool:
    """Whether `forward` takes something before the arguments: a context, or self."""
    is_function = issubclass(cls, torch.autograd.Function)
    return not is_function or cls.setup_context is torch.autograd.Function.setup_context


def _state(owner: Any) -> dict[str, Any]:
    """Parameters and buffers of a module by name; nothing of a Function."""
    return {} if owner is None else {**dict(owner.named_parameters()), **dict(owner.named_buffers())}


def _packed(owner: Any) -> Iterator[str]:
    """The attributes of a module and its parts that hold an object of torch's C++, as quantised modules do."""
    for path, part in owner.named_modules() if owner is not None else ():
        for name, value in vars(part).items():
            if isinstance(value, torch.ScriptObject):
                yield f"{path}.{name}" if path else name


def _slots(named: Mapping[str, Any]) -> Iterator[_Slot]:
    """One slot for each leaf, named for its argument, with a number where that holds several."""
    for name, value in named.items():
        leaves = pytree.tree_leaves(value, is_leaf=_is_list)
        is_single = len(leaves) == 1 and leaves[0] is value
        for place, leaf in enumerate(leaves):
            kind = _type(leaf)
            yield _Slot(name if is_single else f"{name}_{place}", kind, _kept(leaf) if kind else leaf)


_TYPES: tuple[tuple[Any, str], ...] = (
    (torch.Tensor, "Tensor"),
    (bool, "bool"),
    ((int, torch.SymInt), "SymInt"),
    ((float, torch.SymFloat), "float"),
    (str, "str"),
    (torch.dtype, "ScalarType"),
)


def _type(leaf: Any) -> str:
    """The type of a leaf in a schema, "" for what a schema cannot hold."""
    if leaf is None:
        return "Tensor?"
    if _is_list(leaf):
        kinds = {_type(one) for one in leaf}
        kinds = {"float"} if kinds == {"SymInt", "float"} else kinds
        return f"{kinds.pop()}[]" if len(kinds) == 1 else ""
    return next((name for types, name in _TYPES if isinstance(leaf, types)), "")


def _kept(leaf: Any) -> Any:
    """What tells a leaf of a type from others of it: a tuple from a list, which an op makes of it."""
    return type(leaf) if _is_list(leaf) else None


def _is_list(value: Any) -> bool:
    plain = (bool, int, float, str, torch.SymInt, torch.SymFloat)
    return type(value) in (list, tuple) and bool(value) and all(isinstance(one, plain) for one in value)


def _is_within() -> bool:
    return bool(getattr(_within, "depth", 0))


def _inside(run: Callable[[], Any]) -> Any:
    """Run with the classes as they are without an export."""
    _within.depth = getattr(_within, "depth", 0) + 1
    try:
        return run()
    finally:
        _within.depth -= 1
