"""What rules for TensorRT are held against: its own parser, where it is installed."""

import functools

from surgeon import rewrite
from surgeon.file.model import Model
from surgeon.runtime.tensorrt.compatibility import CompatibilityCheck
from surgeon.runtime.tensorrt.library import installed
from surgeon.testing import Case, check_fires, parse

library = functools.cache(installed)


def graph(body, head, constants="", opset=17):
    """A model from ONNX text."""
    header = f'<ir_version: 9, opset_import: ["" : {opset}, "com.microsoft" : 1]> agraph '
    return parse(f"{header}{head} {f'<{constants}>' if constants else ''} {{ {body} }}")


def faults(model, capability=None):
    """What TensorRT's parser has against a model, and its builder where a capability is given; None without it."""
    found = library()
    if found is None:
        return None
    with Model.open(model) as opened:
        return [fault.reason for fault in CompatibilityCheck(found, 60.0, capability).run(opened).faults]


def check_parses(case: Case, capability: str | None = None) -> None:
    """Assert that the rules fire, and that TensorRT takes what it refused before.

    capability: of the GPU to build an engine for; its parser alone is asked by default.
    """
    check_fires(case)
    before = faults(case.model, capability)
    if before is not None:
        after, _ = rewrite(case.model, [*_rules(case)], target=case.target, check="none")
        assert before, "TensorRT takes the model as it is"
        assert not faults(after, capability)


def _rules(case: Case):
    return case.rules if isinstance(case.rules, (list, tuple)) else [case.rules]
