"""Names for new nodes and tensors, distinct from all names in any scope, removed ones included."""

from surgeon.ir.index import Index


class FreshNames:
    """Returns names that are unused in all scopes of an index; value_info may still mention removed ones."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._taken: set[str] | None = None
        self._given: set[str] = set()
        self._counters: dict[str, int] = {}

    def fresh(self, stem: str) -> str:
        """The stem, with a number appended if it is taken."""
        if self._taken is None:
            self._taken = self._beside_main()
        taken, given, main = self._taken, self._given, self._index.main
        name = stem
        while (
            name in given or name in taken or name in main.consumers or name in main.removed_names or main.defines(name)
        ):
            self._counters[stem] = self._counters.get(stem, 0) + 1
            name = f"{stem}_{self._counters[stem]}"
        given.add(name)
        return name

    def forget(self) -> None:
        """Drop the names of the file, which take memory; they are read again when needed."""
        self._taken = None
        for scope in self._index.scopes:
            scope.forget_names()

    def _beside_main(self) -> set[str]:
        """All names of the file except tensors of the main graph, which its own tables have."""
        names: set[str] = set()
        for scope in self._index.scopes:
            names.update(scope.names)
            if scope is not self._index.main:
                made_here = scope.producers, scope.inputs, scope.initializers, scope.sparse
                names.update(*made_here, scope.consumers, scope.removed_names)
        return names
