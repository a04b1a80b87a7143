"""A replacement that does not run for a size of 0, unlike the original, is proved with a note."""

from typing import Any

import numpy as np
import pytest

from surgeon import Graph, Tensor, rewrite, rule
from surgeon.testing import parse

NOTE = "the replacement does not run if a size is 0 ({}), but the original does"

# what x is, the original node, the shape to which a Reshape brings x in its place, and the sizes that the note names
CASES = {
    "flattened, the rest left open": ("n, 3, 4", "Flatten<axis = 1>(x)", [0, -1], "n 0"),
    "an axis between them": ("n, 3, 4", "Abs(x)", [0, 0, -1], "n 0"),
    "the middle left open": ("n, 3, 4", "Abs(x)", [0, -1, 4], "n 0"),
    "two axes": ("rows, 12", "Abs(x)", [0, -1], "rows 0"),
    "the batch left open": ("n, 3, 4", "Flatten<axis = 2>(x)", [-1, 4], ""),
    "all axes as they are": ("n, 3, 4", "Abs(x)", [0, 0, 0], ""),
    "nothing is free": ("2, 3, 4", "Flatten<axis = 1>(x)", [0, -1], ""),
}


@pytest.mark.parametrize("case", CASES)
def test_a_reshape_in_place_of_a_node(case: str) -> None:
    sizes, node, shape, at = CASES[case]

    def flattened(g: Graph, x: Tensor, axis: int) -> Any:
        return g.flatten(x, axis=axis)

    def absolute(g: Graph, x: Tensor) -> Any:
        return g.abs(x)

    @rule(patterns=[flattened], target="any")
    def by_reshape(g: Graph, x: Tensor, axis: int) -> Any:
        """Reshape."""
        return g.reshape(x, np.array(shape))

    @rule(patterns=[absolute], target="any")
    def reshaped(g: Graph, x: Tensor) -> Any:
        """Reshape to its own shape, and take the larger of both signs."""
        own = g.reshape(x, np.array(shape))
        return g.max(own, g.neg(own))

    rank = len(shape)
    model = parse(
        f'<ir_version: 9, opset_import: ["" : 18]> g (float[{sizes}] x) => (float[{", ".join("abc"[:rank])}] y) '
        f"{{ y = {node} }}"
    )
    _, report = rewrite(model, reshaped if "Abs" in node else by_reshape)
    (site,) = report.sites
    assert site.outcome == "proved"
    assert site.reason == (NOTE.format(at) if at else "")
