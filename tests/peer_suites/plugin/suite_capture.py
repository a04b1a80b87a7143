"""A plugin of pytest that keeps each model that a test hands to an optimizer, and what the optimizer made of it.

It runs in the process of the other project's tests, so it imports nothing of this one.  `SUITE_CAPTURE` names the
folder that it writes to: `NUMBER-before.onnx`, `NUMBER-after.onnx`, and a line of `captured.jsonl` for each pair.
Tests that `started.txt` lists are left out, so that a second run continues after one that ended the process.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import onnx
import pytest

LARGEST = 30_000_000  # bytes of a model that is kept
FOLDER = Path(os.environ.get("SUITE_CAPTURE", "."))
STARTED = FOLDER / "started.txt"
FUNCTIONS = {
    ("onnxoptimizer", "optimize"),
    ("onnxslim.cli._main", "slim"),
    ("onnxsim.onnx_simplifier", "simplify"),
    ("onnxruntime.transformers.optimizer", "optimize_model"),
    ("onnxruntime.transformers.optimizer", "optimize_by_fusion"),
    ("optimizer", "optimize_model"),
    ("optimizer", "optimize_by_fusion"),
    ("onnxscript.optimizer", "optimize"),
    ("onnxscript.optimizer", "fold_constants"),
    ("onnxscript.rewriter", "rewrite"),
}
METHODS = {
    "onnxscript.rewriter._rewrite_rule": ("RewriteRuleSet", "apply_to_model"),
    "onnx_graphsurgeon.ir.graph": ("Graph", "fold_constants"),
}
_state: dict[str, Any] = {"depth": 0, "test": ""}


def proto_of(value: Any) -> onnx.ModelProto | None:
    """A model in any of the forms that optimizers take or return; None for another value."""
    if isinstance(value, onnx.ModelProto):
        copied = onnx.ModelProto()
        copied.CopyFrom(value)
        return copied
    if isinstance(value, str | os.PathLike):
        return onnx.load(value) if Path(value).is_file() and Path(value).suffix == ".onnx" else None
    if isinstance(value, list | tuple):
        return proto_of(value[0]) if value else None
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if kind.startswith("onnx_ir.") and kind.endswith(".Model"):
        import onnx_ir

        return onnx_ir.to_proto(value)
    if kind.startswith("onnx_graphsurgeon."):
        import onnx_graphsurgeon

        return onnx_graphsurgeon.export_onnx(value.copy())
    return proto_of(value.model) if hasattr(value, "model") else None


def rules_of_the_test(optimizer: Any) -> bool:
    """Whether a set of onnxscript's rules holds one that a test wrote for itself."""
    rules = getattr(optimizer, "rules", ())
    found = [getattr(getattr(rule, "_replacement_pattern", None), "_function", None) for rule in rules]
    modules = [getattr(type(one.__self__) if inspect.ismethod(one) else one, "__module__", "") for one in found]
    return any(name.endswith("_test") or "test_" in name or name.startswith("tests.") for name in modules)


def keep(before: onnx.ModelProto | None, after: onnx.ModelProto | None) -> None:
    if before is None or after is None:
        return
    texts = [model.SerializeToString(deterministic=True) for model in (before, after)]
    number = hashlib.sha256(b"|".join(texts)).hexdigest()[:16]
    if (FOLDER / f"{number}-before.onnx").exists() or max(map(len, texts)) > LARGEST:
        return
    for text, name in zip(texts, ("before", "after"), strict=True):
        (FOLDER / f"{number}-{name}.onnx").write_bytes(text)
    with (FOLDER / "captured.jsonl").open("a") as file:
        file.write(json.dumps({"number": number, "test": _state["test"]}) + "\n")


def watched(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        if _state["depth"] or rules_of_the_test(values[0]):
            return function(*args, **kwargs)
        models = [value for value in values if not hasattr(value, "rules")]
        before = readable(models[0]) if models else None
        _state["depth"] += 1
        try:
            result = function(*args, **kwargs)
        finally:
            _state["depth"] -= 1
        after = readable(result)
        if after is None:  # changed where it is, or written to a second path
            after = readable(models[0]) if not isinstance(models[0], str | os.PathLike | list) else None
            after = after or next((found for found in map(readable, models[1:]) if found is not None), None)
        keep(before, after)
        return result

    call.is_watched = True  # type: ignore[attr-defined]  # so that it is not watched twice
    return call


def readable(value: Any) -> onnx.ModelProto | None:
    """The model in a value; None also where the optimizer's own reader refuses it, which a test may want."""
    try:
        return proto_of(value)
    except Exception as error:  # noqa: BLE001 - whatever it raises is written down
        sys.stderr.write(f"{_state['test']}: {type(error).__name__}: {str(error)[:200]}\n")
        return None


def replace_everywhere() -> None:
    """Put the watched functions in all modules that hold the original ones, the tests' own names included."""
    made: dict[int, Callable[..., Any]] = {}
    for module in [*sys.modules.values()]:
        for name, value in [*getattr(module, "__dict__", {}).items()]:
            if type(value) is not FunctionType or hasattr(value, "is_watched"):
                continue
            if (value.__module__, value.__qualname__) in FUNCTIONS:
                setattr(module, name, made.setdefault(id(value), watched(value)))
    for home, (owner, method) in METHODS.items():
        found = getattr(sys.modules.get(home), owner, None)
        if found is not None and not hasattr(getattr(found, method), "is_watched"):
            setattr(found, method, watched(getattr(found, method)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    started = set(STARTED.read_text().splitlines()) if STARTED.exists() else set()
    items[:] = [item for item in items if item.nodeid not in started]


def pytest_collection_finish(session: pytest.Session) -> None:
    replace_everywhere()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _state["test"] = item.nodeid
    with STARTED.open("a") as file:
        file.write(f"{item.nodeid}\n")
    replace_everywhere()
