"""Ops whose results have a size that depends on data, and ops that limit such a size."""

from collections.abc import Mapping

COUNTS: Mapping[str, int] = {"NonMaxSuppression": 2, "Range": 1, "TopK": 1}
"""By op, the input with the largest size of the result; of Range, which starts and steps, its end."""
OPEN_AXES: Mapping[str, int] = {"Compress": 0, "NonZero": 1}
"""By op, the axis of the result whose size depends on data, unless the attribute axis names another one."""
AT_MOST, AT_LEAST, PART = "Min", "Max", "Slice"
"""The ops that limit a number, and the size of a tensor."""
STEPPED = "Range"
"""The op of `COUNTS` that starts and steps."""
