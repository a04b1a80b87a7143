"""Registers an operator of torch as the implementation of its placeholder, so that proofs run against torch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from surgeon.errors import UsageError
from surgeon.ops.torch_fallbacks import ATEN_DOMAIN, FALLBACK
from surgeon.ops.torch_schema import SCALAR_TYPES, Argument, TorchSchema, parse
from surgeon.ops.traits.declared_traits import declared_traits
from surgeon.runtime.implementations.implementation import register_trusted
from surgeon.torch.placeholders.class_operators import call_signature
from surgeon.torch.placeholders.placeholder import OperatorLike, placeholder
from surgeon.torch.tensor_conversion import tensor_leaves, to_numpy, to_tensor, torch_dtype

Function = Callable[..., Any]


def implement(
    op: OperatorLike,
    name: str | None = None,
    *,
    indices: Sequence[int] | None = None,
    counts: Sequence[int] | None = None,
    random: bool | None = None,
    like: str | None = None,
) -> Function:
    """Let torch compute the nodes of a placeholder if no runtime can, in proofs of sites and in `compare`.

    The inputs of a node are the operator's tensors in the order of its schema, and its attributes are all other
    arguments by name, as `surgeon.torch.export` and the rule `named_arguments` write them.  Nodes that this rule reads
    are known too.  If there are several overloads, the first one with the attributes and enough tensors runs.  torch
    runs in this process, so operators that a notebook defines are found.

    Args:
        op: "ns::name", with or without overload, an OpOverload or OpOverloadPacket, a torch.library custom op, or an
            autograd.Function.
        name: `domain::Name` of the nodes in the export; by default that of the operator.
        indices: positions of the nodes' inputs that contain indices, as for `surgeon.implements`.
        counts: positions of the inputs that contain counts, steps or sizes.
        random: whether it draws random numbers.
        like: an operator that has the same inputs and attributes with the same meaning.

    Returns:
        The function: numpy arrays and attributes in, numpy arrays out.

    Raises:
        UsageError: torch does not have the operator, it is a module class (nodes do not know its weights), a position
            is wrong, or the operator in `like` is unknown.

    Examples:
        >>> import numpy as np, surgeon.torch
        >>> relu = surgeon.torch.implement("aten::relu", "acme::my_relu")
        >>> relu(np.array([-1.0, 2.0])).tolist()
        [0.0, 2.0]
    """
    found = placeholder(op, name)
    traits = declared_traits(found.name, None, indices=indices, counts=counts, random=random, like=like)
    if found.is_function:
        return register_trusted(found.name, _of_function(op, found.op), traits).function
    if found.cls is not None:
        raise UsageError(
            f"{op.__name__} is a module class, and a node does not know its weights. Write a function that takes them "
            f"as its last inputs, and decorate it with @surgeon.implements({found.name!r})."
        )
    overloads = [(one, parse(str(one._schema))) for one in found.ops]

    def run(*inputs: Any, **attributes: Any) -> Any:
        by_place = None if attributes else _by_place(overloads, inputs)
        target, schema = by_place or _overload(overloads, found.name, inputs, attributes)
        values = map(_converted, schema.arguments, inputs) if by_place else _values(schema, inputs, attributes)
        positional, keywords = [], {}
        for argument, value in zip(schema.arguments, values, strict=True):
            if argument.keyword_only:
                keywords[argument.name] = value
            else:
                positional.append(value)
        with torch.no_grad():
            results = target(*positional, **keywords)
        arrays = tuple(to_numpy(one) for one in tensor_leaves(results, f"The result of {found.name}"))
        return arrays[0] if len(arrays) == 1 else arrays

    run.__name__ = run.__qualname__ = found.op
    register_trusted(found.name, run, traits)
    plain = str(found.ops[0]._schema.name)
    namespace, _, base = plain.partition("::")
    _by_operator[base] = run
    register_trusted(f"{ATEN_DOMAIN}::{FALLBACK}", _fallback)
    register_trusted(f"{ATEN_DOMAIN}::{base}" if namespace == "aten" else plain, run, traits)
    return run


def _of_function(cls: Any, name: str) -> Function:
    """A caller of an autograd.Function: parameters of `forward` are attributes by name, or inputs in order."""

    def run(*inputs: Any, **attributes: Any) -> Any:
        given = iter(inputs)
        values = []
        for item in call_signature(cls).parameters.values():
            last = None if item.default is item.empty else item.default
            values.append(attributes[item.name] if item.name in attributes else _tensor(next(given, last)))
        with torch.no_grad():
            results = cls.apply(*values)
        arrays = tuple(to_numpy(one) for one in tensor_leaves(results, f"The result of {name}"))
        return arrays[0] if len(arrays) == 1 else arrays

    run.__name__ = run.__qualname__ = name
    return run


_by_operator: dict[str, Function] = {}


def _fallback(*inputs: Any, operator: str = "", overload_name: str = "", **attributes: Any) -> Any:
    """The implementation of nodes of ONNX_ATEN_FALLBACK: the operator is an attribute, without its namespace."""
    if operator not in _by_operator:
        raise UsageError(f"{operator} has no implementation; register one with surgeon.torch.implement")
    return _by_operator[operator](*inputs, **attributes)


def _by_place(overloads: Sequence[tuple[Any, TorchSchema]], inputs: Sequence[Any]) -> tuple[Any, TorchSchema] | None:
    """The overload whose arguments are all inputs; the exporter writes unknown operators like this."""
    for target, schema in overloads:
        is_clear = len(schema.arguments) > len(schema.tensors) or any(isinstance(one, list) for one in inputs)
        if is_clear and len(inputs) == len(schema.arguments) and all(map(_fits, schema.arguments, inputs)):
            return target, schema
    return None


def _fits(item: Argument, value: Any) -> bool:
    if value is None:
        return item.is_optional or not item.is_tensor
    if item.is_tensor:
        return item.is_list == isinstance(value, list)
    is_plain = isinstance(value, (np.ndarray, np.generic)) and (item.is_list or value.size == 1)
    return is_plain and (item.base == "str") is (value.dtype.kind in "OSU")


def _converted(item: Argument, value: Any) -> Any:
    """An input as an argument: a tensor, or the Python value of a constant."""
    if value is None:
        return None
    if item.is_tensor:
        return [_tensor(one) for one in value] if isinstance(value, list) else _tensor(value)
    if item.attribute is None:
        return item.default
    plain = np.asarray(value).reshape(-1).tolist()
    if item.base == "ScalarType":
        return torch_dtype(SCALAR_TYPES[int(plain[0])])
    return _plain(item, plain if item.is_list else plain[0])


def _overload(
    overloads: Sequence[tuple[Any, TorchSchema]], name: str, inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> tuple[Any, TorchSchema]:
    """The first overload with these attributes and enough tensors.  Raises UsageError if there is none."""
    for target, schema in overloads:
        tensors = schema.tensors
        known = {argument.name for argument in schema.arguments if argument.attribute}
        needed = {
            item.name for item in schema.arguments if item.attribute and not (item.has_default or item.is_optional)
        }
        most = len(inputs) if any(item.is_list for item in tensors) else len(tensors)
        least = sum(not (item.is_optional or item.is_list) for item in tensors)
        if known >= set(attributes) >= needed and least <= len(inputs) <= most:
            return target, schema
    listed, given = "; ".join(schema.full for _, schema in overloads), ", ".join(attributes) or "none"
    what = f"{len(inputs)} tensors and the attributes {given}"
    raise UsageError(f"No overload of {name} takes {what} (overloads: {listed})")


def _values(schema: TorchSchema, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the value of every argument, in order."""
    given = iter(inputs)
    single = sum(not item.is_list for item in schema.tensors)
    for item in schema.arguments:
        if item.is_list and item.is_tensor:
            yield [_tensor(next(given)) for _ in range(len(inputs) - single)]
        elif item.is_tensor:
            yield _tensor(next(given, None))
        elif item.name in attributes:
            yield _plain(item, attributes[item.name])
        else:  # an omitted attribute is None if it is optional, else the default
            yield None if item.attribute and item.is_optional else item.default


def _tensor(value: Any) -> Any:
    """An array as a tensor; other values unchanged."""
    return to_tensor(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic)) else value


def _plain(item: Argument, value: Any) -> Any:
    """An attribute value as torch takes it."""
    if item.base == "ScalarType":
        return torch_dtype(int(value))
    if item.base == "bool":
        return [bool(one) for one in value] if item.is_list else bool(value)
    return list(value) if item.is_list and not isinstance(value, str) else value
