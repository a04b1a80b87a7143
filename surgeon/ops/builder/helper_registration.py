"""Registers surgeon's helpers on plain `gs.Graph`s when one of them is first used, whenever gs is imported.

So `import surgeon` loads nothing, and a graph of onnx_graphsurgeon still has the helpers.
"""

import sys

TYPE_CHECKING = False  # typing's would be a module more, from wherever Python looks first
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_LIBRARY = "onnx_graphsurgeon"


def register_lazily() -> None:
    """Let the graphs of onnx_graphsurgeon look up our helpers, from now on or after its import."""
    if _LIBRARY in sys.modules:
        _postpone(sys.modules[_LIBRARY])
    else:
        sys.meta_path.insert(0, _Watch)


class _Watch:
    """An import finder that finds nothing itself: it waits for onnx_graphsurgeon, and then removes itself."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        if name != _LIBRARY:
            return None
        import importlib.util

        sys.meta_path.remove(_Watch)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: "ModuleType") -> None:
                run(module)
                _postpone(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _postpone(library: "ModuleType") -> None:
    """Register the helpers when a graph is first asked for an unknown attribute."""
    graph = library.Graph
    own = graph.__getattr__

    def ask(self: "Any", name: str) -> "Any":
        if not name.startswith("_"):
            from surgeon.ops.builder.graph import register_helpers

            graph.__getattr__ = own
            register_helpers()
        return own(self, name)

    graph.__getattr__ = ask
