"""Our helpers on plain `gs.Graph`s: put there when one of them is first asked for, whoever imports gs, and when.

So `import surgeon` loads nothing, and a graph of onnx_graphsurgeon has the helpers all the same.
"""

import sys

TYPE_CHECKING = False  # typing's would be a module more, from wherever Python looks first
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_LIBRARY = "onnx_graphsurgeon"


def register_lazily() -> None:
    """Have the graphs of onnx_graphsurgeon ask for our helpers, from now on or from its import on."""
    if _LIBRARY in sys.modules:
        _postpone(sys.modules[_LIBRARY])
    else:
        sys.meta_path.insert(0, _Watch)


class _Watch:
    """A finder that finds nothing itself: it waits for onnx_graphsurgeon, and is gone then."""

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
    """Register the helpers when a graph is first asked for something that it has not."""
    graph = library.Graph
    own = graph.__getattr__

    def ask(self: "Any", name: str) -> "Any":
        if not name.startswith("_"):
            from surgeon.ops.builder.graph import register_helpers

            graph.__getattr__ = own
            register_helpers()
        return own(self, name)

    graph.__getattr__ = ask
