"""Attention whose masks hide rows whole: the same numbers as before, for every kind of mask, dtype, low and layout.

`python -m tests.masked_runs` runs all of what is drawn from here.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.masked_models import Masked
from tests.masked_runs import OPSETS, differs, every, faults

MIN_FLOAT = float(np.finfo(np.float32).min)
"""Of float32."""

# What was wrong once: numbers beside which scores count, in both spellings; masks that hide a row together.
KNOWN = (
    Masked("kept", -65504.0, "float16", "heads", "b, 1, s, t"),
    Masked("hidden", -65504.0, "float16", "heads", "b, 1, s, t"),
    Masked("kept", -65504.0, "float16", "one head", "b, 1, s, t"),
    Masked("kept", -1e5, "float", "joined", "b, 1, s, t"),
    Masked("hidden", -1.5e4, "float", "self", "b, 1, 1, t"),
    Masked("kept", -1.5e4, "float", "copies", "b, 4, s, t"),
    Masked("causal, padded", -1e5, "float", "past", "b, 1, s, t"),
    Masked("causal", -65504.0, "float16", "heads", "s, t"),
    Masked("causal, padding added before", MIN_FLOAT, "float", "past", "b, 1, 1, t"),
    Masked("causal, padding added behind", MIN_FLOAT, "float", "self", "b, 1, 1, t"),
    Masked("causal, padding added before", -65504.0, "float16", "self", "b, 1, 1, t"),
    Masked("kept", -np.inf, "float", "heads", "b, 1, s, t"),
    Masked("added", -np.inf, "float", "joined", "b, 1, s, t"),
    Masked("added, never infinite", -np.inf, "float", "joined", "b, 1, s, t"),
    Masked("added, never infinite", -np.inf, "float", "past", "s, t"),
)


@pytest.mark.parametrize("target", OPSETS)
@pytest.mark.parametrize("one", KNOWN, ids=str)
def test_rows_that_were_wrong_once(one, target):
    assert list(faults(one, target)) == []


@pytest.mark.parametrize("target", OPSETS)
def test_masks_of_all_kinds(target):
    @settings(max_examples=12, deadline=None, derandomize=True, database=None)
    @given(st.sampled_from(every()))
    def holds(one):
        assert list(faults(one, target)) == []

    holds()


def test_differences_are_reported():
    """The comparison sees what a wrong rule would do."""
    one = np.array([[1.0, 2.0], [np.nan, 4.0]])
    assert differs(one, one, 1e-4) == ""
    assert differs(one, one + np.array([[0.01, 0], [0, 0]]), 1e-4).startswith("off by 0.01 of 4")
    assert differs(one, np.nan_to_num(one), 1e-4) == "another shape, or NaN at other places"
