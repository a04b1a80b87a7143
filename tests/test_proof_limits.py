"""Where a proof could tell too little, or cost too much."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import surgeon
from surgeon import CheckOptions, Constant, Graph, Tensor, rule
from surgeon.runtime.numerics.allowances import JudgeSettings
from surgeon.runtime.numerics.tensor_judge import judge_tensor
from surgeon.testing import parse


def outcome(text, wrong, **settings):
    """The outcome of the one site, and its reason."""
    model = parse(text) if isinstance(text, str) else text
    _, report = surgeon.rewrite(model, wrong, keep_going=True, **settings)
    (site,) = (*report.sites, *report.rolled_back)
    return site.outcome, site.proof.reason


@rule(patterns=[lambda g, a, b: g.relu(g.add(a, b))])
def only_the_first(g: Graph, a: Tensor, b: Tensor) -> Tensor:
    """Wrong wherever the first axis of b is longer than 1."""
    return g.max(g.add(a, g.slice(b, [0], [1], [0])), 0.0)


@pytest.mark.parametrize(
    "ports",
    ["(float[n, 4] a, float[m, 4] b) => (float[k, 4] y)", "(float[?, 8] a, float[?, 8] b) => (float[?, 8] y)"],
    ids=["other names", "no names"],
)
def test_free_dims_that_nothing_links_are_tried_alike(ports):
    """Two names may stand for one size; what runs at size 1 alone tells nothing of broadcasts."""
    assert outcome(f"{ports} {{ s = Add(a, b) y = Relu(s) }}", only_the_first)[0] == "failed"


def test_what_runs_at_size_one_alone_is_unproved():
    """A Reshape to a fixed shape leaves one size only."""

    @rule(patterns=[lambda g, x, w: g.relu(g.conv(x, w))])
    def same(g: Graph, x: Tensor, w: Tensor) -> Tensor:
        return g.max(g.conv(x, w), 0.0)

    text = "(float[a, b, c, d] x, float[e, f, g, h] w) => (float[p, q, r, s] y) { c1 = Conv(x, w) y = Relu(c1) }"
    reported, _ = outcome(text, same)
    assert reported == "proved"
    only_one = """(float[n] x) => (float[n] y) <int64[1] one = {1}> { a = Reshape(x, one) b = Relu(a) y = Relu(b) }"""

    @rule(patterns=[lambda g, x, shape: g.relu(g.relu(g.reshape(x, shape)))])
    def once(g: Graph, x: Tensor, shape: Tensor) -> Tensor:
        return g.relu(g.reshape(x, shape))

    assert outcome(only_one, once) == (
        "unproved",
        "of all sizes tried, the original nodes run only with every dynamic dim equal to 1. Give valid sizes: "
        "--dim n=N",
    )
    assert outcome(only_one, once, options=CheckOptions(dims={"n": 1}))[0] == "proved"


@pytest.mark.parametrize(
    ("text", "pattern", "replacement"),
    [
        (
            "(float[n] x) => (bool[n] y) <float c = {0.3}> { a = Less(x, c) y = Not(a) }",
            lambda g, x, c: g.op("Not", g.less(x, c)),
            lambda g, x, c: g.greater(x, c),
        ),
        (
            "(float[n] x) => (float[n] y) { a = Round(x) y = Relu(a) }",
            lambda g, x: g.relu(g.round(x)),
            lambda g, x: g.relu(g.floor(g.add(x, 0.5))),
        ),
    ],
    ids=["a constant", "halves"],
)
def test_values_at_which_a_region_turns_are_tried(text, pattern, replacement):
    """The numbers that its own constants speak of, and halves."""
    if "Round" in text:

        @rule(patterns=[pattern])
        def wrong(g: Graph, x: Tensor) -> Tensor:
            return replacement(g, x)
    else:

        @rule(patterns=[pattern])
        def wrong(g: Graph, x: Tensor, c: Tensor) -> Tensor:
            return replacement(g, x, c)

    assert outcome(text, wrong)[0] == "failed"


def test_whole_numbers_at_which_a_region_turns_are_tried():
    @rule(patterns=[lambda g, x: g.cast(g.less(x, 512), to=1)])
    def wrong(g: Graph, x: Tensor) -> Tensor:
        return g.cast(g.less_or_equal(x, 512), to=1)

    text = "(int64[n, 4] x) => (float[n, 4] y) <int64 c = {512}> { a = Less(x, c) y = Cast<to = 1>(a) }"
    assert outcome(text, wrong)[0] == "failed"


def test_where_the_original_overflowed_a_better_result_is_no_fault():
    """Large but finite inputs, and NaN inside the original: the reference is finite, and so may the rewrite be."""
    original, rewritten, reference = np.array([np.nan], "f4"), np.array([0.0], "f4"), np.array([18.3])
    large = JudgeSettings(original.dtype, overflowing=True)
    assert judge_tensor("y", original, rewritten, reference, 0.0, large).ok
    assert not judge_tensor("y", original, rewritten, reference, 0.0).ok
    assert not judge_tensor("y", np.array([18.3], "f4"), rewritten, reference, 0.0, large).ok


def test_a_variance_in_two_passes_is_as_good_as_in_one():
    @rule(patterns=[lambda g, x: _one_pass(g, x)])
    def two_passes(g: Graph, x: Tensor) -> Tensor:
        d = g.sub(x, g.reduce_mean(x, axes=[-1]))
        return g.reduce_mean(g.mul(d, d), axes=[-1])

    text = """(float[n, 16] x) => (float[n, 1] y)
        { m = ReduceMean<axes = [-1]>(x) q = Mul(m, m) s = Mul(x, x) e = ReduceMean<axes = [-1]>(s) y = Sub(e, q) }"""
    assert outcome(text, two_passes)[0] == "proved"


def _one_pass(g: Graph, x: Tensor) -> Tensor:
    mean = g.reduce_mean(x, axes=[-1])
    return g.sub(g.reduce_mean(g.mul(x, x), axes=[-1]), g.mul(mean, mean))


def stack(layers, width, folder):
    """MatMul and two Relus a layer, weights float32 [width, width] in one sparse file."""
    nodes, weights, last = [], [], "x"
    for number in range(layers):
        weight = TensorProto(name=f"w{number}", data_type=1, dims=[width, width], data_location=TensorProto.EXTERNAL)
        size = width * width * 4
        for key, value in (("location", "w.bin"), ("offset", number * size), ("length", size)):
            weight.external_data.add(key=key, value=str(value))
        weights.append(weight)
        nodes += [
            helper.make_node("MatMul", [last, f"w{number}"], [f"m{number}"]),
            helper.make_node("Relu", [f"m{number}"], [f"a{number}"]),
            helper.make_node("Relu", [f"a{number}"], [f"b{number}"]),
        ]
        last = f"b{number}"
    ports = [helper.make_tensor_value_info(name, 1, ["n", width]) for name in ("x", last)]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "in.onnx").write_bytes(model.SerializeToString())
    with open(folder / "w.bin", "wb") as file:
        file.truncate(layers * width * width * 4)
    return folder / "in.onnx"


def read_bytes(monkeypatch):
    """Counts the bytes of tensors that are read from files from now on."""
    from surgeon.file.model import Model

    read, value = [], Model.value

    def counted(self, tensor):
        array = value(self, tensor)
        read.append(array.nbytes)
        return array

    monkeypatch.setattr(Model, "value", counted)
    return read


def test_a_right_rule_reads_no_weight(tmp_path, monkeypatch):
    @rule(patterns=[lambda g, x, w: g.relu(g.relu(g.matmul(x, w)))])
    def right(g: Graph, x: Tensor, w: Tensor) -> Tensor:
        return g.relu(g.matmul(x, w))

    source, read = stack(3, 2048, tmp_path), read_bytes(monkeypatch)
    _, report = surgeon.rewrite(source, right, output=tmp_path / "out.onnx")
    assert report.outcome == "proved"
    assert sum(read) < 1 << 20


def test_a_wrong_rule_reads_a_bounded_amount(tmp_path, monkeypatch):
    """Weights of 400 MB each: the failure with weights made up stands."""

    @rule(patterns=[lambda g, x, w: g.relu(g.relu(g.matmul(x, w)))])
    def wrong(g: Graph, x: Tensor, w: Tensor) -> Tensor:
        return g.max(g.matmul(x, w), 0.1)

    source, read = stack(4, 10_000, tmp_path), read_bytes(monkeypatch)
    _, report = surgeon.rewrite(source, wrong, output=tmp_path / "out.onnx", keep_going=True)
    assert [site.outcome for site in report.rolled_back] == ["failed"] * 4
    assert sum(read) < 1 << 20


def test_a_large_weight_that_was_folded_is_unproved_and_not_wrong(tmp_path):
    """Only its own value could prove it, and that is more than a proof reads."""
    from surgeon.proof.site import site_prover

    weight = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float32)
    model = parse("(float[n, 128] x) => (float[n, 128] y) { a = MatMul(x, w) y = Relu(a) }")
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))

    @rule(patterns=[lambda g, x, w: g.relu(g.matmul(x, w))])
    def folded(g: Graph, x: Tensor, w: Tensor) -> Tensor:
        return g.max(g.matmul(x, np.asarray(w.values)), 0.0)

    assert outcome(model, folded)[0] == "proved"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site_prover, "MAX_READ_BYTES", 1000)
        reported, why = outcome(model, folded)
    assert reported == "unproved"
    assert "are too large for a proof" in why


def looked_up(beside: str):
    """A large table whose rows are looked up, and rows of a smaller table that depend on no input."""
    model = parse(
        f"""(int64[n] ids) => (float[n, 64] y) <int64[1] where = {{7}}, int64[1] low = {{3}}, int64[1] high = {{70}},
        int64[1] zero = {{0}}> {{ row = Gather(words, ids) beside = {beside} y = Add(row, beside) }}"""
    )
    random = np.random.default_rng(0)
    for name, rows in (("words", 4000), ("positions", 90)):
        table = random.standard_normal((rows, 64)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(table, name))
    return model


@rule(patterns=[lambda g, words, ids, table, first: g.add(g.gather(words, ids), g.gather_nd(table, first))])
def folded_row(g: Graph, words: Tensor, ids: Tensor, table: Constant, first: Constant) -> Tensor:
    """Right: the row is stored, and the table is read no more."""
    return g.add(g.gather(words, ids), table.values[first.values[0]])


@rule(patterns=[lambda g, words, ids, table, first: g.add(g.gather(words, ids), g.gather_nd(table, first))])
def folded_next_row(g: Graph, words: Tensor, ids: Tensor, table: Constant, first: Constant) -> Tensor:
    """Wrong: it stores the next row."""
    return g.add(g.gather(words, ids), table.values[first.values[0] + 1])


def parts(g, words, ids, table, low, high, axis):
    """A row for each id, and some rows of a table."""
    return g.add(g.gather(words, ids), g.slice(table, low, high, axis))


@rule(patterns=[parts])
def folded_rows(
    g: Graph, words: Tensor, ids: Tensor, table: Constant, low: Constant, high: Constant, axis: Tensor
) -> Tensor:
    """Right: so many rows are stored that they may come from any large table."""
    return g.add(g.gather(words, ids), table.values[low.values[0] : high.values[0]])


@pytest.mark.parametrize(
    ("beside", "fold", "expected"),
    [
        ("GatherND(positions, where)", folded_row, "proved"),
        ("GatherND(positions, where)", folded_next_row, "failed"),
        ("Slice(positions, low, high, zero)", folded_rows, "proved"),
    ],
)
def test_rows_that_a_rule_folds_are_proved_with_their_table_beside_a_larger_one(monkeypatch, beside, fold, expected):
    """The table of the folded rows is read; the other one is too large for that."""
    from surgeon.proof.site import site_prover

    monkeypatch.setattr(site_prover, "MAX_READ_BYTES", 90 * 64 * 4)
    assert outcome(looked_up(beside), fold, options=CheckOptions(dims={"n": 67}))[0] == expected
