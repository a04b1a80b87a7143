"""Upper bounds for sizes that depend on data: which nodes get one, and what the bounded model returns."""

import numpy as np
import onnx
import onnxruntime
import pytest

import surgeon
from surgeon.edits import BoundSizes
from surgeon.errors import UsageError
from surgeon.testing import parse
from tests.command_line import one_sentence, run
from tests.models import ops

WORDS = "int64 zero = {0}, int64 one = {1}, int64 minus = {-2}, int64[1] large = {1000000}, float half = {0.5}"
NMS = "(float[1, 50, 4] boxes, float[1, 3, 50] scores, int64 most) => (int64[m, 3] y)"


def model(head, body, opset=17):
    return parse(f'<ir_version: 8, opset_import: ["": {opset}]> g {head} <{WORDS}> {{ {body} }}')


MODELS = {
    "TopK": ("(float[n, 8] x, int64[1] k) => (float[n, m] y)", "y, places = TopK(x, k)", ["Min", "TopK"]),
    "NonMaxSuppression": (NMS, "y = NonMaxSuppression(boxes, scores, most, half)", ["Min", "NonMaxSuppression"]),
    "constant": (NMS, "y = NonMaxSuppression(boxes, scores, large, half)", ["NonMaxSuppression"]),
    "Range": ("(int64 last) => (int64[m] y)", "y = Range(one, last, one)", ["Min", "Range"]),
    "descending": ("(int64 last) => (int64[m] y)", "y = Range(zero, last, minus)", ["Max", "Range"]),
    "NonZero": ("(float[n, 8] x) => (int64[2, m] y)", "y = NonZero(x)", ["NonZero", "Slice"]),
    "Compress": ("(float[n, 8] x, bool[k] c) => (float[n, m] y)", "y = Compress <axis=1>(x, c)", ["Compress", "Slice"]),
    "flat": ("(float[n, 8] x, bool[k] c) => (float[m] y)", "y = Compress(x, c)", ["Compress", "Slice"]),
}
RANDOM = np.random.default_rng(0)
CORNERS = np.sort(RANDOM.random((1, 50, 2, 2)), axis=2).reshape(1, 50, 4).astype(np.float32) * 100
FEEDS = {
    "x": np.arange(1, 25, dtype=np.float32).reshape(3, 8),
    "k": np.array([6]),
    "boxes": CORNERS,
    "scores": RANDOM.random((1, 3, 50)).astype(np.float32),
    "most": np.array(9),
    "last": np.array(12),
    "c": np.array([True] * 7),
}


def result(made, **feeds):
    """The output y on FEEDS, or on others."""
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    given = FEEDS | feeds
    return session.run(["y"], {item.name: given[item.name] for item in session.get_inputs()})[0]


@pytest.mark.parametrize("name", MODELS)
def test_a_size_is_bounded(name):
    """Sizes up to the bound stay, larger ones are cut; a bounded model is not changed again."""
    head, body, wanted = MODELS[name]
    last = np.array(-12) if name == "descending" else FEEDS["last"]
    before = model(head, body)
    whole, axis = result(before, last=last), {"TopK": 1, "NonZero": 1}.get(name, int("axis=1" in body))
    for most in (3, 1_000_000):
        made, report = surgeon.edit(before, BoundSizes(most))
        onnx.checker.check_model(made, full_check=True)
        if (name, most) == ("constant", 1_000_000):
            assert report.outcome == "unchanged"
            continue
        assert ops(made.graph) == wanted
        op = next(op for op in wanted if op in body)
        assert report.edits[0].said == (f"{op} 'y' gets the bound {most:,}",)
        expected = whole
        if most == 3 and "NonMax" in body:  # of each class
            expected = np.concatenate([whole[whole[:, 1] == kind][:3] for kind in range(3)])
        elif most == 3:
            expected = whole.take(range(3), axis)
        assert expected.shape != whole.shape or most > 3
        np.testing.assert_array_equal(result(made, last=last), expected)
        again, report = surgeon.edit(made, BoundSizes(most))
        assert (report.outcome, again) == ("unchanged", made)


def test_proofs_and_doubts():
    """A bound that no run exceeds is proved; otherwise the report says so, and other edits are proved by themselves."""
    top = model(*MODELS["TopK"][:2])
    assert surgeon.edit(top, BoundSizes(8))[1].outcome == "proved"
    _, report = surgeon.edit(top, [BoundSizes(1), surgeon.edits.Rename("x", "rows")])
    assert report.outcome == "unproved"
    assert "They may do so if a size exceeds its bound" in report.doubts[0]
    assert "has shape" in report.doubts[0]
    assert len(report.doubts) == 1


STAY = {
    "an input's": ("(float[n, 8] x) => (int64[n] y)", "s = Shape(x) n = Gather(s, zero) y = Range(zero, n, one)"),
    "a constant": ("(float[n, 8] x) => (float[n, 2] y)", "k = Constant<value_ints = [2]>() y, i = TopK(x, k)"),
    "no limit": ("(float[1, 50, 4] b, float[1, 3, 50] s) => (int64[m, 3] y)", "y = NonMaxSuppression(b, s)"),
    "nothing of the kind": ("(float[n, 8] x) => (float[n, 8] y)", "y = Relu(x)"),
}


@pytest.mark.parametrize("name", STAY)
def test_sizes_that_need_no_bound(name):
    """They follow from the shapes of inputs, or are constant."""
    before = model(*STAY[name])
    made, report = surgeon.edit(before, BoundSizes(1))
    assert (report.outcome, report.edits[0].said, made) == ("unchanged", (), before)


def test_what_cannot_be_bounded_is_reported():
    """And refused if it is named; Range of floats, or with a computed step, is among it."""
    body = """u, i, j, c = Unique(x) s = ReduceSum<keepdims = 0>(u) t = Cast<to = 7>(s) r = Range(zero, t, t)
        k = ReduceSum<keepdims = 0>(r) f = Range(half, s, half) g = ReduceSum<keepdims = 0>(f) a, b = TopK(x, w)
        l = ReduceMax<keepdims = 0>(a) h = Cast<to = 1>(k) y = Sum(g, h, l)"""
    before = model("(float[6] x, int64[1] w) => (float y)", body)
    made, report = surgeon.edit(before, BoundSizes(6), check="none")
    said = report.edits[0].said
    assert said[0] == "TopK 'a' gets the bound 6"
    assert [line.partition(":")[0] for line in said[1:]] == [
        f"{op} '{name}' stays without a bound" for op, name in (("Unique", "u"), ("Range", "r"), ("Range", "f"))
    ]
    assert ops(made.graph).count("Min") == 1
    with pytest.raises(UsageError, match=r"The size of 'u' cannot get a bound: only Compress, .*Choose another node\."):
        surgeon.edit(before, BoundSizes(6, "u"))


def test_nodes_by_name():
    """Names and outputs match a pattern, in bodies too; the first bound counts where it is smaller."""
    body = """a, i = TopK(x, k) y = If<then_branch = t () => (float[n, m] p) { p, j = TopK(x, k) },
        else_branch = e () => (float[n, m] q) { q = Identity(a) }>(c)"""
    before = model("(float[n, 8] x, int64[1] k, bool c) => (float[n, m] y)", body)
    made, report = surgeon.edit(before, [BoundSizes(2, "p*"), BoundSizes(4)], check="none")
    assert [one.said for one in report.edits] == [("TopK 'p' gets the bound 2",), ("TopK 'a' gets the bound 4",)]
    assert result(made, c=np.array(True)).shape == (3, 2)
    assert result(made, c=np.array(False)).shape == (3, 4)


@pytest.mark.parametrize(
    ("text", "why"),
    [("0", "cannot have the bound 0"), ("2147483648", "from 1 to 2"), ("few", "not of the form"),
     ("=3", "not of the form"), ("y=", "not of the form"), ("z=3", "No node has the name 'z'")],
)  # fmt: skip
def test_the_command_refuses(text, why, tmp_path):
    onnx.save(model(*MODELS["TopK"][:2]), tmp_path / "in.onnx")
    done = run("edit", tmp_path / "in.onnx", tmp_path / "out.onnx", "--bound-sizes", text)
    assert why in one_sentence(done, 2)
    assert not (tmp_path / "out.onnx").exists()


def test_the_command(tmp_path):
    onnx.save(model(*MODELS["TopK"][:2]), tmp_path / "in.onnx")
    done = run("edit", tmp_path / "in.onnx", tmp_path / "out.onnx", "--bound-sizes", "y=300")
    assert done.exit_code == 0, done.output
    assert "TopK 'y' gets the bound 300" in done.output
    assert BoundSizes.parse("a=b=3") == BoundSizes(3, "a=b")
    assert [BoundSizes.parse(text).spelling for text in ("y*=3", "3")] == ["y*=3", "3"]
