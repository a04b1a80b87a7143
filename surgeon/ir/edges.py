"""How tensors continue at the borders of bodies and local functions, at which a value changes its name."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import traits_of

_DEEPEST = 32  # maximum depth of calls that are distinguished


class Tensor(NamedTuple):
    """A tensor of a model."""

    scope: Scope
    """The scope that defines it."""
    name: str
    """Its name there."""
    calls: tuple[Node, ...] = ()
    """The calls that lead into its function, the outermost first; () if calls are not distinguished."""


class _OtherSide(NamedTuple):
    """The tensor on the other side of a border."""

    tensor: Tensor
    """It, without calls."""
    call: Node | None
    """The call of the function; None for a body."""
    is_inside: bool
    """Whether it is the one in the body or function."""


_Borders = defaultdict[Tensor, list[_OtherSide]]


class Edges:
    """The consumers and the sources of the values of tensors.  by_call: distinguish the calls of a function."""

    def __init__(self, index: Index, *, by_call: bool = False) -> None:
        self.index, self._by_call = index, by_call

    def tensor(self, scope: Scope, name: str, calls: tuple[Node, ...] = ()) -> Tensor:
        """The tensor that a name means in a scope."""
        return Tensor(scope.defining_scope(name) or scope, name, calls)

    def makers(self, tensor: Tensor) -> list[Node]:
        """The node that produces a tensor; the owner for an input of a body, the calls for one of a function."""
        scope, name, calls = tensor
        if name in scope.producers:
            return [scope.producers[name]]
        if scope.owner is not None:
            return [scope.owner] if name in scope.inputs else []
        sides = self._borders[1].get(Tensor(scope, name), ())
        return [side.call for side in sides if side.call is not None and (not self._by_call or side.call in calls[-1:])]

    def onwards(self, tensor: Tensor) -> Iterator[Tensor]:
        """The tensors after a border that hold the value of a tensor, or a part of it."""
        return self._across(self._borders[0], tensor)

    def origins(self, tensor: Tensor) -> Iterator[Tensor]:
        """The tensors before a border whose value, or a part of it, a tensor holds."""
        return self._across(self._borders[1], tensor)

    def _across(self, borders: _Borders, tensor: Tensor) -> Iterator[Tensor]:
        scope, name, calls = tensor
        for other, call, is_inside in borders.get(Tensor(scope, name), ()) if borders else ():
            if call is None or not self._by_call:
                yield other._replace(calls=calls)
            elif is_inside and len(calls) < _DEEPEST:
                yield other._replace(calls=(*calls, call))
            elif not is_inside and calls[-1:] == (call,):
                yield other._replace(calls=calls[:-1])

    @cached_property
    def _borders(self) -> tuple[_Borders, _Borders]:
        """The other sides of all borders, by the tensor before the border, and by the tensor after it."""
        behind, before = _Borders(list), _Borders(list)

        def connect(one: Tensor, other: Tensor, call: Node | None, *, is_inward: bool) -> None:
            behind[one].append(_OtherSide(other, call, is_inward))
            before[other].append(_OtherSide(one, call, not is_inward))

        for scope in self.index.scopes:
            for one, other in _body_borders(scope):
                connect(self.tensor(*one), self.tensor(*other), None, is_inward=True)
            for node in scope.live_nodes() if self.index.functions else ():
                called = self.index.called(node)
                if called is None:
                    continue
                for outer, inner in zip(node.inputs, called.input_names, strict=False):
                    if outer:
                        connect(self.tensor(scope, outer), Tensor(called, inner), node, is_inward=True)
                for inner, outer in zip(called.output_names, node.outputs, strict=False):
                    connect(Tensor(called, inner), Tensor(scope, outer), node, is_inward=False)
        return behind, before


def states(body: Scope) -> list[tuple[int, int]]:
    """The outputs of a body that are inputs of the next iteration, as positions of both."""
    given, made, owner = body.input_names, body.output_names, body.owner
    if owner is None or not given:
        return []
    if traits_of(owner.op).control.trip_counts:  # the first input of a Loop's body is the iteration number
        return [(place, place + 1) for place in range(min(len(made), len(given) - 1))]
    scanned = owner.attribute("num_scan_inputs")
    return [] if scanned is None else [(place, place) for place in range(len(given) - scanned.i)]


def _body_borders(body: Scope) -> Iterator[tuple[tuple[Scope, str], tuple[Scope, str]]]:
    """The tensors that get other names if a body begins, ends or repeats, with these."""
    owner = body.owner
    if owner is None or not traits_of(owner.op).control.has_bodies:  # an unknown operator may do anything with them
        return
    outside, given, made = owner.scope, body.input_names, body.output_names
    is_loop = bool(traits_of(owner.op).control.trip_counts)  # its body has a condition as first output
    offset = 0 if is_loop else len(owner.inputs) - len(given)  # the first Scan had lengths before its states
    for slot, inner in enumerate(given, offset):
        if 0 <= slot < len(owner.inputs) and owner.inputs[slot] and not (is_loop and slot == 0):
            yield (outside, owner.inputs[slot]), (body, inner)
    for name, inner in zip(owner.outputs, made[is_loop:], strict=False):
        if name:
            yield (body, inner), (outside, name)
    carried = states(body)
    yield from (((body, made[place]), (body, given[again])) for place, again in carried)
    begin = owner.inputs[2 if is_loop else offset :]
    for first, last in zip(begin, owner.outputs[: len(carried) - is_loop], strict=False):
        if first and last:  # without any iteration, the first value is the last
            yield (outside, first), (outside, last)
