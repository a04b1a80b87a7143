"""Operators of tensors in functions of rules: `x * 2` is `g.mul(x, 2)` of the graph that the function builds on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from surgeon.errors import RuleError

_graph: ContextVar[Any] = ContextVar("graph", default=None)  # which the function that runs was given


@contextmanager
def building(graph: Any) -> Iterator[None]:
    """Let operators add nodes to a graph while a function runs on it."""
    token = _graph.set(graph)
    try:
        yield
    finally:
        _graph.reset(token)


class Operators:
    """The operators of a tensor."""

    __array_ufunc__ = None  # so that numpy leaves `array * tensor` to the tensor

    def __init_subclass__(cls, **others: Any) -> None:
        """Let Python's messages use the public name of the class: 'surgeon.Tensor' has no len()."""
        super().__init_subclass__(**others)
        cls.__name__ = "surgeon.Tensor"

    def require_operand(self, other: Any) -> None:
        """Raise RuleError unless this and another value are tensors to compute with."""


def _helper(name: str) -> Any:
    graph = _graph.get()
    if graph is None:
        raise RuleError(
            f"Tensors have operators only in patterns and replacements; there, this one is g.{name}(...). "
            "In a condition, look at x.dtype, x.shape, or the x.values of a constant."
        )
    return getattr(graph, name)


def _binary(name: str, *, swapped: bool = False) -> Callable[[Operators, Any], Any]:
    def apply(self: Operators, other: Any) -> Any:
        self.require_operand(other)
        return _helper(name)(*((other, self) if swapped else (self, other)))

    return apply


def _elsewhere(sign: str, name: str, written: str) -> Callable[..., Any]:
    def refuse(self: Operators, *_: Any) -> Any:
        _helper(name)  # in a condition the message is another
        raise RuleError(f"Tensors do not support the operator {sign}. Write {written}.")

    return refuse


def _unary(name: str) -> Callable[[Operators], Any]:
    return lambda self: _helper(name)(self)


for _name, _op in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "div"), ("pow", "pow"), ("matmul",) * 2):
    setattr(Operators, f"__{_name}__", _binary(_op))
    setattr(Operators, f"__r{_name}__", _binary(_op, swapped=True))
for _name in ("neg", "abs"):
    setattr(Operators, f"__{_name}__", _unary(_name))
# Operators without a helper of the same meaning: a comparison gives a tensor, and Mod has two forms.
for _name, _sign, _op, _written in (
    ("mod", "%", "mod", "g.mod(x, y, fmod=1)"),
    ("floordiv", "//", "floor", "g.floor(g.div(x, y))"),
    ("and", "&", "and_", "g.and_(x, y)"),
    ("or", "|", "or_", "g.or_(x, y)"),
    ("invert", "~", "not_", "g.not_(x)"),
    ("lt", "<", "less", "g.less(x, y)"),
    ("le", "<=", "less_or_equal", "g.less_or_equal(x, y)"),
    ("gt", ">", "greater", "g.greater(x, y)"),
    ("ge", ">=", "greater_or_equal", "g.greater_or_equal(x, y)"),
):
    setattr(Operators, f"__{_name}__", _elsewhere(_sign, _op, _written))
    if _name in ("mod", "floordiv", "and", "or"):
        setattr(Operators, f"__r{_name}__", _elsewhere(_sign, _op, _written))
