"""Integer sums that overflow in ONNX Runtime are tested where they do."""

from typing import Any

import numpy as np
import pytest

from tests.mutation.planting import PLANTED, outcome, plant_text

WRONG = {
    "running sums in float64": (
        "(int32[n, m] x) => (int32[n, m] y) ",
        "{ y = CumSum(x, one) }",
        "{ d = Cast<to = 11>(x) s = CumSum(d, one) y = Cast<to = 6>(s) }",
    ),
    "running sums that stay at the end": (
        "(int32[n, m] x) => (int32[n, m] y) ",
        "{ y = CumSum(x, one) }",
        "{ d = Cast<to = 7>(x) s = CumSum(d, one) c = Clip(s, low, high) y = Cast<to = 6>(c) }",
    ),
    "products of matrices in float64": (
        "(int32[n, 4] x, int32[4, m] w) => (int32[n, m] y) ",
        "{ y = MatMul(x, w) }",
        "{ d = Cast<to = 11>(x) e = Cast<to = 11>(w) s = MatMul(d, e) y = Cast<to = 6>(s) }",
    ),
    "sums of two that stay at the end": (
        "(int32[n] x, int32[n] w) => (int32[n] y) ",
        "{ y = Add(x, w) }",
        "{ d = Cast<to = 7>(x) e = Cast<to = 7>(w) s = Add(d, e) c = Clip(s, low, high) y = Cast<to = 6>(c) }",
    ),
}
NUMBERS: dict[str, Any] = {"one": np.array(1), "low": np.array(-(1 << 31)), "high": np.array((1 << 31) - 1)}


@pytest.mark.parametrize("title", WRONG)
def test_a_site(title: str) -> None:
    plant_text("sums", title, *WRONG[title], 18, **NUMBERS)
    found, reason = outcome(PLANTED.pop(title))
    assert found == "failed", reason


def test_running_sums_in_two_dtypes_that_wrap_alike_are_right() -> None:
    text = "(int32[n, m] x) => (int32[n, m] y) "
    plant_text("sums", "alike", text, "{ y = CumSum(x, one) }", "{ d = Cast<to = 7>(x) s = CumSum(d, one) "
               "y = Cast<to = 6>(s) }", 18, **NUMBERS)  # fmt: skip
    found, reason = outcome(PLANTED.pop("alike"))
    assert found == "proved", reason
