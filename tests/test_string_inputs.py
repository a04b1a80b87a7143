"""String literals of a site or a model, and variations of them, are used as inputs."""

from typing import Any

import numpy as np
import onnx
import pytest

import surgeon
from surgeon.proof.check_result import Outcome
from surgeon.runtime.inputs.string_values import unmatched
from tests.mutation.planting import PLANTED, outcome, plant_text

TEXT, PARTS = "(string[n] x) => (string[n] y) ", "(string[n] x) => (string[n, m] y) "
TRUTH, NUMBER = "(string[n] x) => (bool[n] y) ", "(string[n] x) => (int64[n] y) "
STORED = '<string e = {"!"}, string z = {"zebra!"}>'
WRONG = {
    "another delimiter": (PARTS, '{ y, c = StringSplit<delimiter = ";">(x) }', "{ y, c = StringSplit(x) }"),
    "at most two parts": (
        NUMBER,
        '{ p, y = StringSplit<delimiter = "--">(x) }',
        '{ p, y = StringSplit<delimiter = "--", maxsplit = 1>(x) }',
    ),
    "at most five parts": (
        NUMBER,
        '{ p, y = StringSplit<delimiter = ",", maxsplit = 5>(x) }',
        '{ p, y = StringSplit<delimiter = ",", maxsplit = 4>(x) }',
    ),
    "one choice of two": (
        TRUTH,
        '{ y = RegexFullMatch<pattern = "[a-z]+@[a-z]+[.](com|org)">(x) }',
        '{ y = RegexFullMatch<pattern = "[a-z]+@[a-z]+[.]com">(x) }',
    ),
    "a choice that may be left out": (
        TRUTH,
        '{ y = RegexFullMatch<pattern = "v(?:1|22)?-end">(x) }',
        '{ y = RegexFullMatch<pattern = "v1?-end">(x) }',
    ),
    "any character but the end of a line": (
        TRUTH,
        '{ y = RegexFullMatch<pattern = "a.*b">(x) }',
        '{ y = RegexFullMatch<pattern = "(?s)a.*b">(x) }',
    ),
    "one character of several": (
        TRUTH,
        '{ y = RegexFullMatch<pattern = "ab+c">(x) }',
        '{ y = RegexFullMatch<pattern = "abc">(x) }',
    ),
    "the last of a class": (
        TRUTH,
        '{ y = RegexFullMatch<pattern = "[0-9]+-x">(x) }',
        '{ y = RegexFullMatch<pattern = "[0-8]+-x">(x) }',
    ),
    "one string behind another is added": (
        TRUTH,
        "{ t = StringConcat(x, e) y = Equal(t, z) }",
        "{ y = Equal(x, z) }",
    ),
    "one string of many": (
        TEXT,
        "{ y = StringConcat(x, e) }",
        "{ t = StringConcat(x, e) q = Equal(t, z) y = Where(q, x, t) }",
    ),
}


@pytest.mark.parametrize("title", WRONG)
def test_a_site(title: str) -> None:
    texts: dict[str, Any] = {"e": np.array("!", object), "z": np.array("zebra!", object)}
    plant_text("strings", title, *WRONG[title], 20, **texts)
    found, reason = outcome(PLANTED.pop(title))
    assert found == "failed", reason


@pytest.mark.parametrize("title", WRONG)
def test_a_whole_model(title: str) -> None:
    ports, *bodies = WRONG[title]
    head = f'<ir_version: 10, opset_import: ["": 20]> g {ports} {STORED}'
    one, other = (onnx.parser.parse_model(f"{head} {body}") for body in bodies)
    assert surgeon.compare(one, one).outcome is Outcome.PROVED
    assert surgeon.compare(one, other).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("pattern", "is_met"),
    [
        ("ab+c", True),
        ("[a-f]{2}:x?", True),
        (r"\d+", True),
        ("cat|dog", True),
        ("(x(y(z|w)v)u){3}", False),
        (".*", True),  # but not the end of a line
        ("(?s).*", False),
    ],
)
def test_a_pattern_that_no_known_string_meets_leaves_a_site_unproved(pattern: str, is_met: bool) -> None:
    body = f'y = RegexFullMatch<pattern = "{pattern}">(x)'.replace("\\", "\\\\")
    plant_text("strings", pattern, TRUTH, f"{{ {body} }}", f"{{ n = Identity(x) {body.replace('(x)', '(n)')} }}", 20)
    one = PLANTED.pop(pattern)
    assert (unmatched(one.model) == "") is is_met
    found, reason = outcome(one)
    assert found == ("proved" if is_met else "unproved"), reason
    assert is_met or "the generated strings do not test" in reason
