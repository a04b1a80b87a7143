"""The error function of arrays: Python's, to the last place but one."""

import math

import numpy as np
import pytest

from surgeon.runtime.kernels.erf import erf

RANDOM = np.random.default_rng(0)
EDGES = (0.0, -0.0, np.inf, -np.inf, np.nan, 0.84375, 1.25, 1 / 0.35, 6.0, 5e-324, 1e308)
MANY = np.concatenate(
    [
        np.linspace(-7, 7, 50_001),
        10.0 ** RANDOM.uniform(-320, 3, 20_000),
        EDGES,
        np.nextafter(EDGES, 0),
        np.nextafter(EDGES, 9),
    ]
)


@pytest.mark.parametrize("sign", [1, -1])
def test_many_numbers(sign):
    """Of every branch, over several blocks; within one unit in the last place, and exactly where that is zero."""
    x = sign * MANY
    found, wanted = erf(x), np.array([math.erf(one) for one in x])
    np.testing.assert_array_max_ulp(found[~np.isnan(x)], wanted[~np.isnan(x)], maxulp=1)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x))
    np.testing.assert_array_equal(np.signbit(found[~np.isnan(x)]), np.signbit(wanted[~np.isnan(x)]))


@pytest.mark.parametrize("shape", [(), (3, 4), (0, 2), (40, 100)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shapes_and_dtypes(shape, dtype):
    x = np.asarray(RANDOM.normal(size=shape), dtype=dtype)
    found = erf(x)
    assert found.shape == shape
    assert found.dtype == dtype
    np.testing.assert_allclose(
        found, np.vectorize(math.erf, otypes=[dtype])(x), rtol=1e-7 if dtype == np.float32 else 4e-16
    )


def test_few_and_many_agree():
    """What is taken one by one and what is taken in blocks."""
    x = RANDOM.normal(size=5_000)
    np.testing.assert_array_max_ulp(erf(x)[:100], erf(x[:100]), maxulp=1)


def test_what_is_not_contiguous():
    x = RANDOM.normal(size=(100, 80))
    np.testing.assert_array_equal(erf(x.T), erf(x).T)
