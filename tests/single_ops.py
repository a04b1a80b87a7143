"""One node on arrays: by surgeon's formula in float64, by onnx's own evaluator, and by ONNX Runtime."""

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from surgeon.runtime.sessions.float64_reference import Float64Reference
from surgeon.runtime.sessions.ort_session import OrtSession
from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession


def one_node(op, feeds, *, opset=22, outputs=1, domain="", **attributes):
    """A model of one node on inputs like these; an input of None is absent.  Outputs are y0, y1, ..."""
    given = {name: array for name, array in feeds.items() if array is not None}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    names = [f"y{place}" for place in range(outputs)]
    node = helper.make_node(op, [name if name in given else "" for name in feeds], names, domain=domain, **attributes)
    graph = helper.make_graph([node], "one", inputs, [helper.make_empty_tensor_value_info(name) for name in names])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


def wide(feeds):
    """The same inputs with floats as float64, without those that are absent."""
    given = {name: array for name, array in feeds.items() if array is not None}
    return {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in given.items()}


def by_formula(op, feeds, **rest):
    """The answers of surgeon's evaluator in float64."""
    feeds = dict.fromkeys(feeds) | wide(feeds)
    with EvaluatorSession(one_node(op, feeds, **rest)) as one:
        return list(one.run(wide(feeds)).values())


def by_reference(op, feeds, **rest):
    """What a proof is judged by: its name, and its answers."""
    with Float64Reference(one_node(op, feeds, **rest)) as one:
        answers = list(one.run({name: array for name, array in feeds.items() if array is not None}).values())
        return one.name, answers


def by_onnx(op, feeds, **rest):
    """The answers of onnx's evaluator as it comes, in float64."""
    feeds = dict.fromkeys(feeds) | wide(feeds)
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(one_node(op, feeds, **rest)).run(None, wide(feeds))


def by_runtime(op, feeds, **rest):
    """ONNX Runtime's answers in the dtypes given.  Raises SessionError."""
    with OrtSession(one_node(op, feeds, **rest)) as session:
        return list(session.run({name: array for name, array in feeds.items() if array is not None}).values())


def require_same(found, wanted, rtol, atol):
    """Assert that all answers agree in shape and, within a tolerance, in numbers."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)
