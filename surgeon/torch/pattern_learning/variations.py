"""Varies an operation: other sizes, weights and hyper-parameters, as far as it accepts them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from surgeon.errors import UsageError
from surgeon.torch.pattern_learning.operation import Operation, run_error

FACTORS = (2, 3)  # of sizes in turn, so that their ratios change too
FLOAT_FACTOR, STEP = 1.25, 0.0625  # of hyper-parameters: the factor rises, so that no two stay equal

Position = tuple[int, int]


@dataclass(frozen=True)
class Variation:
    """One variant of the operation."""

    shapes: tuple[tuple[int, ...], ...]
    """The shapes of the inputs."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that replace those of the operation."""
    attributes: Mapping[str, float] = field(default_factory=dict)
    """Float attributes of the module by path, set after its construction."""
    seed: int = 0
    """The seed of the weights and inputs."""

    def module(self, subject: Operation) -> torch.nn.Module:
        """A module with random weights."""
        module = subject.module(self.arguments)
        for path, value in self.attributes.items():
            owner, _, name = path.rpartition(".")
            setattr(module.get_submodule(owner), name, value)
        generator = torch.Generator().manual_seed(self.seed)
        with torch.no_grad():
            for _, tensor in weight_tensors(module):
                if tensor.is_floating_point():
                    # Between ½ and 1½: variances must be positive, and no weight may be 0 or 1.
                    tensor.copy_(torch.rand(tensor.shape, generator=generator, dtype=torch.float64) + 0.5)
        return module

    def inputs(self, given: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Inputs of these shapes in the given dtypes; integers are repeated, since they may be indices."""
        generator = torch.Generator().manual_seed(self.seed)
        made = []
        for tensor, shape in zip(given, self.shapes, strict=True):
            if tuple(tensor.shape) == shape:
                made.append(tensor)
            elif tensor.is_floating_point():
                made.append(torch.rand(shape, generator=generator, dtype=torch.float64).to(tensor.dtype))
            else:
                count = torch.Size(shape).numel()
                flat = tensor.reshape(-1)
                made.append(flat[torch.arange(count) % flat.numel()].reshape(shape))
        return tuple(made)


def weight_tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and stored buffers by name, without scalar and non-persistent buffers."""
    stored = module.state_dict(keep_vars=True)
    yield from ((name, tensor) for name, tensor in module.named_parameters() if name in stored)
    parameters = dict(module.named_parameters(remove_duplicate=False))
    for name, tensor in stored.items():
        if name not in parameters and isinstance(tensor, torch.Tensor) and tensor.ndim:
            yield name, tensor


def float_attributes(module: torch.nn.Module) -> dict[str, float]:
    """Public float attributes of a module and its submodules by path."""
    return {
        f"{path}.{name}" if path else name: value
        for path, part in module.named_modules()
        for name, value in vars(part).items()
        if isinstance(value, float) and not name.startswith("_")
    }


def original(subject: Operation, inputs: Sequence[torch.Tensor]) -> Variation:
    """The operation as given.  Raises UsageError if it does not accept the inputs."""
    variant = Variation(tuple(tuple(tensor.shape) for tensor in inputs))
    problem = run_error(variant.module(subject), variant.inputs(inputs))
    if problem:
        shapes = " and ".join("x".join(map(str, shape)) or "a scalar" for shape in variant.shapes)
        raise UsageError(f"{subject.title} does not accept inputs of shape {shapes} ({problem}). Give other inputs.")
    return variant


def vary_sizes(
    subject: Operation, inputs: Sequence[torch.Tensor], first: Variation, *, with_arguments: bool = True
) -> Variation:
    """The operation with every size changed that may vary, together with arguments that equal the size.

    with_arguments: False keeps these arguments and the sizes that they fix.
    """
    found = replace(first, seed=first.seed + 1)
    groups: dict[int, list[Position]] = {}
    for place, shape in enumerate(first.shapes):
        for axis, size in enumerate(shape):
            if size > 1:  # 1 may be broadcast
                groups.setdefault(size, []).append((place, axis))
    for number, (size, positions) in enumerate(groups.items()):
        factor = FACTORS[number % len(FACTORS)]
        tied = {
            name: new
            for name, value in subject.arguments.items()
            if with_arguments and (new := _scaled(value, size, factor)) is not None
        }
        extras: list[dict[str, Any]] = [{}, tied] if tied else [{}]
        together = [_with(found, positions, factor, extra) for extra in extras]
        fitting = next((variant for variant in together if _works(subject, inputs, variant)), None)
        if fitting is not None:
            found = fitting
            continue
        for position in positions:
            alone = [_with(found, [position], factor, extra) for extra in extras]
            found = next((variant for variant in alone if _works(subject, inputs, variant)), found)
    return found


def vary_floats(
    subject: Operation,
    inputs: Sequence[torch.Tensor],
    variant: Variation,
    vary: Mapping[str, Any] | None,
    skip: int = 0,
) -> Variation:
    """The operation with other hyper-parameters.  skip: the number of factors to skip.

    vary: new values of arguments or float attributes by name; None: change every float that it accepts.  Raises
    UsageError for an unknown name, and for values with which the module does not run.
    """
    found = variant
    if vary is not None:
        return _vary_by_name(subject, inputs, found, vary)
    count = skip
    for name, value in subject.arguments.items():
        if isinstance(value, float) and name not in found.arguments:
            tried = replace(found, arguments={**found.arguments, name: _other(value, count)})
            if _works(subject, inputs, tried):
                found, count = tried, count + 1
    before, after = float_attributes(variant.module(subject)), float_attributes(found.module(subject))
    for path, value in after.items():
        if before.get(path) == value:
            tried = replace(found, attributes={**found.attributes, path: _other(value, count)})
            if _works(subject, inputs, tried):
                found, count = tried, count + 1
    return found


def vary_integers(subject: Operation, inputs: Sequence[torch.Tensor], variant: Variation) -> Variation:
    """The operation with other integers from the caller that are not sizes: groups, kernels, a rank."""
    found = variant
    for name in sorted(subject.given):
        value = subject.arguments[name]
        if name not in found.arguments and type(value) is int and value > 1:
            tried = replace(found, arguments={**found.arguments, name: value * FACTORS[0]})
            if _works(subject, inputs, tried):
                found = tried
    return found


def _vary_by_name(
    subject: Operation, inputs: Sequence[torch.Tensor], variant: Variation, vary: Mapping[str, Any]
) -> Variation:
    arguments, attributes = dict(variant.arguments), dict(variant.attributes)
    known = float_attributes(variant.module(subject))
    for name, value in vary.items():
        paths = [path for path in known if path == name or path.endswith(f".{name}")]
        if name in subject.arguments:
            arguments[name] = value
        elif paths:
            attributes.update(dict.fromkeys(paths, float(value)))
        else:
            names = ", ".join([*subject.arguments, *known]) or "none"
            raise UsageError(f"{subject.title} has no argument or float {name!r} to vary. It has {names}.")
    found = replace(variant, arguments=arguments, attributes=attributes)
    problem = run_error(found.module(subject), found.inputs(inputs))
    if problem:
        values = ", ".join(f"{name}={value}" for name, value in vary.items())
        raise UsageError(f"{subject.title} does not run with {values} ({problem}). Choose other values.")
    return found


def _with(variant: Variation, positions: Sequence[Position], factor: int, arguments: Mapping[str, Any]) -> Variation:
    shapes = [list(shape) for shape in variant.shapes]
    for place, axis in positions:
        shapes[place][axis] *= factor
    return replace(variant, shapes=tuple(map(tuple, shapes)), arguments={**variant.arguments, **arguments})


def _works(subject: Operation, inputs: Sequence[torch.Tensor], variant: Variation) -> bool:
    try:
        module = variant.module(subject)
    except UsageError:
        return False
    return not run_error(module, variant.inputs(inputs))


def _scaled(value: Any, size: int, factor: int) -> Any:
    """An argument scaled with a size that it equals; None if it does not equal the size."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value * factor if value == size else None
    if isinstance(value, (list, tuple)) and size in value and all(isinstance(item, int) for item in value):
        return type(value)(item * factor if item == size else item for item in value)
    return None


def _other(value: float, count: int) -> float:
    return (value or 0.375) * (FLOAT_FACTOR + count * STEP)
