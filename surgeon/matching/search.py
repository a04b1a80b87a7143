"""A search: how a rule finds its places where no pattern can say it, such as nodes that repeat one another."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surgeon.indexing.index import Index
from surgeon.indexing.scope import Node, Scope


@dataclass(frozen=True, slots=True)
class Found:
    """A place to rewrite.

    nodes: what goes.  outputs: the tensors of these nodes that others use; the replacement returns one for each, or an
    empty list.  Where there are no nodes, outputs are initializers whose readers are to read what the replacement
    returns.
    bound: what the replacement and the conditions may ask for by name: the name of a tensor, `Several` of them, or a
    1-tuple of any other value.  kept: nodes that stay, and that make the tensors it rests on.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    bound: Mapping[str, Any]
    kept: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Search:
    """What finds the places of a rule that has no pattern.

    find: goes over one scope, once, and yields places in the order of the nodes; the scope is edited between two of
    them, so what it yields must hold whatever was done with the places before.  absent: what to say of a model in which
    it finds nothing, as a clause; left: what it says in place of that, of one scope, where it found something and left
    it on purpose ("" where it did not).  last: its rule comes behind all others, as what it finds is of use to none of
    them.
    """

    find: Callable[[Index, Scope], Iterator[Found]]
    absent: str
    last: bool = False
    left: Callable[[Index, Scope], str] | None = None

    @property
    def name(self) -> str:
        """What the search is called."""
        return str(inspect.unwrap(self.find).__name__).lstrip("_")

    def why_none(self, index: Index, scopes: Sequence[Scope]) -> str:
        """Why it finds nothing in these scopes, as a clause."""
        told = (self.left(index, scope) for scope in scopes) if self.left is not None else iter(())
        return next(filter(None, told), self.absent)

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (inspect.getdoc(self.find) or "").partition("\n")[0]

    @property
    def where(self) -> str:
        """file:line of the search."""
        code = inspect.unwrap(self.find).__code__
        return f"{Path(code.co_filename).name}:{code.co_firstlineno}"
