"""Large weights that ONNX Runtime casts: the same numbers as numpy's, and numpy wherever it does not."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import surgeon
from surgeon.file.tensors.casting import TensorCast
from surgeon.runtime.sessions import float16_cast
from surgeon.runtime.sessions.float16_cast import Float16Caster, float16_caster
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError
from tests.half_models import model

ODD = np.array([0.0, -0.0, 1e-8, 2.0**-25, 3 * 2.0**-25, 65519.9, 65520.0, -1e30, np.inf, np.nan], np.float32)


@pytest.fixture(autouse=True)
def from_the_first_on(monkeypatch):
    """No large arrays are needed."""
    monkeypatch.setattr(float16_cast, "MIN_ELEMENTS", 4)


def cast(one, array):
    """What it makes of an array, None where it makes nothing."""
    made = np.empty(array.shape, np.float16)
    return made if one(array, made) else None


def halved(array):
    with np.errstate(over="ignore"):
        return array.astype(np.float16)


def test_it_rounds_as_numpy_does():
    """To even, to subnormal numbers, beyond all numbers; of any shape."""
    every = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, np.uint32).view(np.float32)
    for array in (ODD, every, every.reshape(256, 256)):
        np.testing.assert_array_equal(cast(Float16Caster(), array), halved(array))
    assert not np.signbit(cast(Float16Caster(), ODD)[0])
    assert np.signbit(cast(Float16Caster(), ODD)[1])


def test_few_elements_do_not_load_it(monkeypatch):
    monkeypatch.setattr(float16_cast, "MIN_ELEMENTS", 30)
    one = Float16Caster()
    assert [cast(one, ODD) is None for _ in range(4)] == [True, True, False, False]


def test_other_dtypes_are_numpys():
    assert cast(Float16Caster(), np.zeros(8, np.float64)) is None
    made = TensorCast("w", TensorProto.DOUBLE, TensorProto.FLOAT16, kernel=Float16Caster()).array(np.array([0.1, 1e9]))
    np.testing.assert_array_equal(made, halved(np.array([0.1, 1e9])))


@pytest.mark.parametrize("fault", ["does not load", "rounds otherwise"])
def test_numpy_does_it_where_onnx_runtime_does_not(fault, monkeypatch):
    class Odd(OrtSession):
        def __init__(self, given):
            if fault == "does not load":
                raise SessionError("no kernel")
            super().__init__(given)

        def run_into(self, source, array, name, made):
            super().run_into(source, array, name, made)
            made[...] = np.nextafter(made, np.float16(0))

    monkeypatch.setattr(float16_cast, "OrtSession", Odd)
    one = Float16Caster()
    assert cast(one, ODD) is None
    np.testing.assert_array_equal(
        TensorCast("w", TensorProto.FLOAT, TensorProto.FLOAT16, kernel=one).array(ODD), halved(ODD)
    )


@pytest.mark.parametrize("clamp", [False, True])
def test_weights_of_a_file_are_as_numpy_has_them(clamp, tmp_path, monkeypatch):
    """Several blocks, and what saturates, which numpy does."""
    asked = []
    known = Float16Caster.__call__
    float16_caster.cache_clear()
    monkeypatch.setattr(
        Float16Caster, "__call__", lambda self, *given: asked.append(given[0].size) or known(self, *given)
    )
    made = model("y = MatMul(x, w)", "(float[N, 600] x) => (float[N, 1000] y)")
    weight = np.random.default_rng(0).normal(size=(600, 1000)).astype(np.float32)
    weight[0, 0] = 1e5 if clamp else 1e4
    made.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    onnx.save(made, tmp_path / "net.onnx", save_as_external_data=True, location="net.data")
    surgeon.convert(tmp_path / "net.onnx", output=tmp_path / "half.onnx", check="none", clamp=clamp)
    (tensor,) = onnx.load(tmp_path / "half.onnx").graph.initializer
    wanted = np.clip(weight, -65504, 65504).astype(np.float16)
    np.testing.assert_array_equal(numpy_helper.to_array(tensor), wanted)
    assert sum(asked) == (0 if clamp else weight.size)
    assert clamp or len(asked) > 1
    float16_caster.cache_clear()
