"""What the tests of torch's exporters share."""

import importlib

import pytest


@pytest.fixture(scope="session", autouse=True)
def translations_read_once():
    """The dynamo exporter reads the source of all its translations at every export: longer than the export takes."""
    try:
        functions = importlib.import_module("onnxscript._internal.values").OnnxFunction
        read = functions.function_ir.fget
    except (ImportError, AttributeError):  # another version keeps them elsewhere: slower, and no less right
        yield
        return
    found = {}

    def remembered(function):
        if id(function) not in found:
            found[id(function)] = (function, read(function))
        return found[id(function)][1]

    patch = pytest.MonkeyPatch()
    patch.setattr(functions, "function_ir", property(remembered))
    yield
    patch.undo()
