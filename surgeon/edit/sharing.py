"""Where readers of one tensor may be made to read another."""

from surgeon.edit.fragment import Fragment
from surgeon.errors import require
from surgeon.indexing.scope import Scope
from surgeon.matching.match import Match


def sees(scope: Scope, old: str, new: str) -> bool:
    """Whether all readers of one tensor could read another: no body on the way has a tensor of that name."""
    home = scope.home(new)
    return all(reader.scope is scope or reader.scope.home(new) is home for reader in scope.readers(old))


def require_shareable(match: Match, fragment: Fragment) -> None:
    """Raise Refused where initializers, in whose place others are to be read, must stay."""
    scope, index = match.scope, match.index
    for name, ref in zip(match.outputs, fragment.outputs, strict=True):
        require(name in scope.initializers, f"{name!r} is no initializer, and no node of the match makes it")
        require(ref.kind == "capture", f"{name!r} can only give way to a tensor that is there")
        new = match.tensor(ref.key)
        why = index.held(scope, name)
        require(why is None, f"{name!r}, equal to {new!r}, must keep its name: {why}")
        home = scope.home(new)
        require(home is not None and new in home.initializers, f"{new!r}, to be read for {name!r}, is no initializer")
        for tensor, at in ((name, scope), (new, home or scope)):
            given = index.is_overridable(at, tensor)
            require(not given, f"{name!r} equals {new!r} until a caller gives {tensor!r}, an input, another value")
        require(sees(scope, name, new), f"a body that reads {name!r} has a {new!r} of its own")
