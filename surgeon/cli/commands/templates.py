"""The files that `surgeon new` writes."""

RULE = '''"""{title}: describe the operation, and name the source of its formula (paper, specification)."""

from surgeon import Graph, Tensor, rule


def written_out(g: Graph, x: Tensor) -> Tensor:
    """x · x."""
    return g.mul(x, x)


@rule(patterns=[written_out], target="any")
def {name}(g: Graph, x: Tensor) -> Tensor:
    """Write x · x as one node.

    What: give the formula, and the forms in which exporters write it.
    Numerics: rounding only.
    """
    return g.pow(x, 2.0)
'''

TESTS = '''"""Tests of the rule {name}: models that it changes, and look-alikes."""

import pytest
from {home} import {name}

from surgeon.testing import Case, check_fires, check_spares, parse

FIRES = [
    Case({name}, "a product", parse("(float[n, 4] x) => (float[n, 4] y) {{ y = Mul(x, x) }}")),
]

NEGATIVES = [
    Case(
        {name},
        "a product of two tensors is not a square",
        parse("(float[n, 4] x, float[n, 4] w) => (float[n, 4] y) {{ y = Mul(x, w) }}"),
        why="wanted 'x'",
    ),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """Models that the rule changes."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """Look-alikes."""
    check_spares(case)
'''

PACK = {
    "pyproject.toml": """[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "{pack}"
version = "0.1.0"
description = "Rules for surgeon."
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["onnx-surgeon"]

[project.optional-dependencies]
test = ["pytest"]

[project.entry-points."surgeon.rules"]
{pack} = "{module}"

[tool.hatch.build.targets.wheel]
packages = ["src/{module}"]
""",
    "README.md": """# {pack}

Rules for [surgeon](https://pypi.org/project/onnx-surgeon/).

- `surgeon rewrite IN OUT --rules {pack}` applies all of them.
- `surgeon rules {name}` prints the manual of one, and `surgeon rules {name} --prove` proves it.
""",
    "src/{module}/__init__.py": '''"""Rules for surgeon, one operation per file.

A group is a name for several rules, in the order in which they run.
"""

GROUPS = {{"{pack}": ("{name}",)}}
''',
}
