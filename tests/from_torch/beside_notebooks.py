"""Modules that stand beside the notebooks, for the tests of what the notebooks show."""

import importlib.util
from types import ModuleType

from tests.command_line import ROOT


def load(name: str) -> ModuleType:
    """Run such a module, anew at each call."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "notebooks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
