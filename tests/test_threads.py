"""The evaluator's products run on one thread, and the number of threads is what it was before."""

import numpy as np
import pytest

from surgeon.runtime.sessions import reference_evaluator
from surgeon.runtime.sessions.reference_evaluator import single_threaded_blas
from tests.single_ops import by_formula


@pytest.fixture
def switches():
    found = reference_evaluator._switches()
    if found is None:
        pytest.skip("numpy has no OpenBLAS of its own here")
    reported, tell = found
    before = reported()
    tell(3)
    yield reported
    tell(before)


def test_one_thread_inside_and_as_many_as_before_after(switches):
    with single_threaded_blas():
        assert switches() == 1
    assert switches() == 3
    with pytest.raises(ValueError, match="broken"), single_threaded_blas():
        raise ValueError("broken")
    assert switches() == 3


def test_the_evaluator_computes_on_one_thread(switches, monkeypatch):
    from surgeon.runtime.kernels import convolution

    seen = []
    product = np.matmul
    monkeypatch.setattr(convolution.np, "matmul", lambda *inputs: [seen.append(switches()), product(*inputs)][1])
    by_formula("Conv", {"x": np.ones((1, 1, 3)), "w": np.ones((1, 1, 2))})
    assert seen == [1]


def test_without_an_openblas_nothing_happens(monkeypatch, switches):
    monkeypatch.setattr(reference_evaluator, "_switches", lambda: None)
    with single_threaded_blas():
        assert switches() == 3
