"""The example arguments of an export: their tensors, the names of the inputs, and the dynamic dims."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from surgeon.errors import UsageError


@dataclass(frozen=True, slots=True)
class ExampleInputs:
    """The arguments of a module for an export."""

    args: tuple[Any, ...]
    """The positional arguments."""
    kwargs: Mapping[str, Any]
    """The keyword arguments."""
    arguments: Mapping[str, Any]
    """All arguments by the names of the parameters of `forward`."""
    tensors: tuple[tuple[str, Any], ...]
    """Each tensor with the name of its argument."""
    names: tuple[str, ...]
    """The name of the model input of each tensor."""
    dynamic_axes: tuple[dict[int, str], ...]
    """For each tensor the names of its dynamic dims by axis."""

    def with_tensors(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with these tensors, in the order of `self.tensors`."""
        given = dict(zip((id(tensor) for _, tensor in self.tensors), tensors, strict=True))
        made: tuple[tuple[Any, ...], dict[str, Any]]
        made = pytree.tree_map(lambda leaf: given.get(id(leaf), leaf), (self.args, dict(self.kwargs)))
        return made

    def as_dynamic_axes(self) -> dict[str, dict[int, str]]:
        """The dynamic dims as `dynamic_axes`."""
        return {name: axes for name, axes in zip(self.names, self.dynamic_axes, strict=True) if axes}

    def as_dynamic_shapes(self) -> dict[str, Any] | None:
        """The dynamic dims as `dynamic_shapes` of torch.export, like the arguments; None without dynamic dims."""
        if not any(self.dynamic_axes):
            return None
        rest = list(self.dynamic_axes)

        def spec(leaf: Any) -> Any:
            axes = rest.pop(0) if isinstance(leaf, torch.Tensor) else {}
            return dict.fromkeys(axes, torch.export.Dim.DYNAMIC) or None

        return {name: pytree.tree_map(spec, value) for name, value in self.arguments.items()}


def example_inputs(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    free: Mapping[str, Any] | Sequence[Any] | None,
    input_names: Sequence[str] | None,
) -> ExampleInputs:
    """The example inputs for a call.

    free: the dynamic dims by argument of `forward` or by input name, or a sequence with one entry for each argument, as
    in torch.export: {axis: name} or a name for each axis (None: static); a list of these for an argument with several
    tensors.  Raises UsageError for arguments that `forward` does not take, and for unknown inputs and axes.
    """
    args, kwargs = _with_distinct_tensors(args, kwargs)
    arguments = bind_arguments(module, args, kwargs)
    kwargs = {name: kwargs[name] for name in sorted(kwargs, key=list(arguments).index)}  # in the order of `forward`
    tensors = argument_tensors(arguments)
    own = tensor_names(tensors)
    if input_names is not None and len(input_names) != len(own):
        raise UsageError(
            f"There are {len(input_names)} input names for {len(own)} tensors in the arguments. Give one for each, "
            f"in the order of {', '.join(own)}."
        )
    names = tuple(input_names or own)
    by_name = _by_name(free or {}, arguments)
    return ExampleInputs(
        args,
        kwargs,
        arguments,
        tensors=tensors,
        names=names,
        dynamic_axes=_dynamic_axes(by_name, arguments, tensors, own=own, names=names),
    )


def _with_distinct_tensors(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with copies of repeated tensors, which would become one input otherwise."""
    seen: set[int] = set()

    def fresh(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or id(leaf) not in seen:
            seen.add(id(leaf))
            return leaf
        return leaf.detach().clone().requires_grad_(leaf.requires_grad)

    made: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map(fresh, (tuple(args), dict(kwargs)))
    return made


def bind_arguments(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by the names of the parameters of `forward` or of a function.

    Raises UsageError for arguments that it does not take, and for NumPy arrays.
    """
    signature = _signature(module)
    try:
        given = signature.bind(*args, **kwargs)
    except TypeError as error:
        name = f"{type(module).__name__}.forward" if isinstance(module, torch.nn.Module) else str(module.__name__)
        raise UsageError(
            f"{name}{signature} does not accept these arguments ({error}). Give them as a tuple."
        ) from error
    found: dict[str, Any] = {}
    for name, value in given.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        else:
            found[name] = value
    for name, value in found.items():
        if any(isinstance(leaf, (np.ndarray, np.generic)) for leaf in pytree.tree_leaves(value)):
            raise UsageError(f"Argument {name!r} is a numpy array, but modules take tensors. Use torch.as_tensor.")
    return found


def _signature(module: Any) -> inspect.Signature:
    """The signature of `forward`; for a TorchScript module it comes from the schema."""
    if not isinstance(module, torch.jit.ScriptModule):
        return inspect.signature(module.forward if isinstance(module, torch.nn.Module) else module)
    kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    return inspect.Signature(
        [
            inspect.Parameter(item.name, kind, default=item.default_value if item.has_default_value() else empty)
            for item in module.forward.schema.arguments[1:]
        ]
    )


def argument_tensors(arguments: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Each tensor among the arguments, with the name of its argument."""
    return tuple(
        (name, leaf)
        for name, value in arguments.items()
        for leaf in pytree.tree_leaves(value)
        if isinstance(leaf, torch.Tensor)
    )


def tensor_names(tensors: Sequence[tuple[str, Any]]) -> tuple[str, ...]:
    """One name for each tensor: that of its argument, with a number if the argument holds several."""
    owners = [name for name, _ in tensors]
    seen: dict[str, int] = {}
    found = []
    for name in owners:
        place = seen[name] = seen.get(name, -1) + 1
        found.append(f"{name}_{place}" if owners.count(name) > 1 else name)
    return tuple(found)


def _by_name(free: Mapping[str, Any] | Sequence[Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The dynamic dims by argument, also if they are given in the order of the arguments."""
    if isinstance(free, Mapping):
        return free
    if isinstance(free, str) or not isinstance(free, Sequence) or len(free) != len(arguments):
        raise UsageError(
            f"dynamic_shapes is {free!r}. Give dynamic sizes by argument, for example "
            f"{{'{next(iter(arguments), 'x')}': {{0: 'batch'}}}}, or a sequence with one entry for each of the "
            f"{len(arguments)} arguments."
        )
    return dict(zip(arguments, free, strict=True))


def _dynamic_axes(
    given: Mapping[str, Any],
    arguments: Mapping[str, Any],
    tensors: Sequence[tuple[str, Any]],
    own: Sequence[str],
    names: Sequence[str],
) -> tuple[dict[int, str], ...]:
    found: list[dict[int, str]] = [{} for _ in tensors]
    for key, spec in given.items():
        places = [place for place, (name, _) in enumerate(tensors) if key in (name, own[place], names[place])]
        if not places:
            raise UsageError(f"dynamic_shapes has {key!r}, which is not an input. The inputs are {', '.join(names)}.")
        specs = _specs(arguments[key], spec) if key in arguments else [spec]
        if len(specs) != len(places):
            raise UsageError(f"dynamic_shapes has {len(specs)} shapes for the {len(places)} tensors of {key!r}.")
        for place, one in zip(places, specs, strict=True):
            found[place] = _axes(key, one, tensors[place][1].dim())
    return tuple(found)


def _specs(value: Any, spec: Any) -> list[Any]:
    """The spec of each tensor in a value: one for all of them, a list, or a tree like the value."""
    if isinstance(value, torch.Tensor):
        return [spec]
    if isinstance(value, Mapping) and isinstance(spec, Mapping) and spec.keys() <= value.keys():
        return [one for name, item in value.items() for one in _specs(item, spec.get(name))]
    count = sum(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))
    is_tree = isinstance(spec, (list, tuple)) and all(one is None or not isinstance(one, str | int) for one in spec)
    if is_tree and isinstance(value, (list, tuple)) and len(spec) == len(value):
        return [one for item, own in zip(value, spec, strict=True) for one in _specs(item, own)]
    return list(spec) if isinstance(spec, (list, tuple)) and count > 1 else [spec] * count


def _axes(key: str, spec: Any, rank: int) -> dict[int, str]:
    if spec is None:
        return {}
    if not isinstance(spec, (Mapping, Sequence)) or isinstance(spec, str):
        raise UsageError(f"dynamic_shapes is {spec!r} for {key!r}. Give sizes by axis, for example {{0: 'batch'}}.")
    pairs = spec.items() if isinstance(spec, Mapping) else enumerate(spec)
    found = {}
    for axis, name in pairs:
        if not isinstance(axis, int) or not -rank <= axis < rank:
            raise UsageError(f"dynamic_shapes has axis {axis!r} for {key!r}, which has {rank} axes.")
        if name is not None and name is not torch.export.Dim.STATIC and not isinstance(name, int):
            plain = name if isinstance(name, str) else getattr(name, "__name__", f"{key}_{axis % rank}")
            found[axis % rank] = str(plain)
    return found
