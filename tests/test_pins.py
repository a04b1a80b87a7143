"""Numbers that the constants of a region speak of, put into its inputs."""

from types import SimpleNamespace

import numpy as np
from onnx import numpy_helper

from surgeon.sites.pins import sprinkle

LOWEST = float(np.finfo(np.float32).min)


def sprinkled(added=(), **settings):
    """The numbers in an input of zeros, where the constants are 20 and the least float32."""
    constants = {
        "limit": numpy_helper.from_array(np.array(20, np.float32)),
        "lowest": numpy_helper.from_array(np.array([LOWEST], np.float32)),
        "weights": numpy_helper.from_array(np.array([7, 8], np.float32)),
    }
    want = SimpleNamespace(name="x", kind="plain", free=False, dtype=np.dtype(np.float32))
    feeds = {"x": np.zeros((8, 8), np.float32)}
    plan = SimpleNamespace(wants=[want], edged={"x"})
    sprinkle(feeds, plan, constants, 0, added=added, **settings)
    return set(feeds["x"].reshape(-1).tolist())


def test_scalars_and_halves_are_put_and_others_are_not():
    assert {20.0, LOWEST, 0.5, 2.5} < sprinkled()
    assert not {7.0, 8.0} & sprinkled()


def test_numbers_above_the_largest_are_left_out():
    assert LOWEST not in sprinkled(most=1e4)
    assert 20.0 in sprinkled(most=1e4)


def test_large_numbers_of_the_replacement_alone_are_left_out():
    found = sprinkled(added={"lowest", "limit"})
    assert LOWEST not in found
    assert 20.0 in found
