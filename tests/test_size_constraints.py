"""Size constraints from the nodes of a region, and proofs that need them."""

from functools import wraps

import pytest

import surgeon
from surgeon import Graph, Tensor, rule
from surgeon.proof.site import site_prover
from surgeon.shapes.algebra.size_expressions import symbol
from surgeon.shapes.constraints.constraint_solver import SizeSolver
from surgeon.shapes.op_rules.size_constraints import SizeConstraint, size_constraints
from surgeon.testing import parse
from tests.models import make

HEADER = '<ir_version: 10, opset_import: ["" : 23]>'


@rule(patterns=[lambda g, m, x: g.relu(g.where(m, x, -1.0))])
def masked(g: Graph, m: Tensor, x: Tensor) -> Tensor:
    """Right: what is below zero ends as zero."""
    return g.max(g.where(m, x, 0.0), 0.0)


@rule(patterns=[lambda g, m, x: g.relu(g.where(m, x, -1.0))])
def masked_wrongly(g: Graph, m: Tensor, x: Tensor) -> Tensor:
    """Wrong: what the mask hides ends as 1."""
    return g.max(g.where(m, x, 1.0), 0.0)


def cut_of(text, found, monkeypatch):
    """The report of a rule on a model of one site, and what was cut out for its proof."""
    cuts = []
    prepared = site_prover.build_proof_case
    monkeypatch.setattr(site_prover, "build_proof_case", lambda cut, *rest: cuts.append(cut) or prepared(cut, *rest))
    _, report = surgeon.rewrite(parse(HEADER + text), found, keep_going=True)
    assert cuts
    return report, cuts[0]


def wanted_by(cut):
    """What the nodes of a cut want of sizes."""
    return size_constraints(cut.shapes, (*cut.prefix, *cut.before))


# A mask of one line for each of a batch and as long as past and new rows together, read by index, as torch writes it.
BY_TUPLES = """agraph (float[batch, rows, 4] x, float[batch, past, 4] cache, int64[lines, total] mask,
    float[b, r, k] scores) => (float[b, r, k] y) <
    int64 zero = {0}, int64 one = {1}, int64[1] first = {0}, int64[1] second = {1},
    int64[2] sides = {0, 2}, int64[2] behind = {1, 2}, float low = {-1.0}> {
    xs = Shape(x) cs = Shape(cache) count = Gather(xs, zero) new = Gather(xs, one) old = Gather(cs, one)
    keys = Add(old, new) places = Range(zero, keys, one) lines_ = Range(zero, count, one)
    p = Unsqueeze(places, sides) l = Unsqueeze(lines_, behind)
    c1 = Unsqueeze(count, first) k1 = Unsqueeze(keys, first) shape = Concat<axis = 0>(c1, k1, second)
    pe = Expand(p, shape) le = Expand(l, shape) tuples = Concat<axis = -1>(le, pe)
    truth = Cast<to = 9>(mask) seen = GatherND(truth, tuples) m = Unsqueeze(seen, second)
    w = Where(m, scores, low) y = Relu(w) }"""


def test_a_mask_read_by_index_is_as_long_as_past_and_new_rows(monkeypatch):
    """No sizes chosen one by one would fit: the table is to hold every index, and its result to fit the scores."""
    report, cut = cut_of(BY_TUPLES, masked, monkeypatch)
    assert report.outcome == "proved", [site.reason for site in report.sites]
    sizes = SizeSolver(wanted_by(cut)).sizes(
        {"batch": 2, "rows": 3, "past": 5, "lines": 7, "total": 11, "b": 13, "r": 17, "k": 19}, {}
    )
    assert sizes["lines"] == sizes["batch"] == sizes["b"]
    assert sizes["total"] == sizes["past"] + sizes["rows"] == sizes["k"]


def test_what_is_wrong_fails_at_sizes_that_fit(monkeypatch):
    report, _ = cut_of(BY_TUPLES, masked_wrongly, monkeypatch)
    assert [site.outcome for site in report.rolled_back] == ["failed"]


def twice(form):
    """A pattern of what the cut is to hold, behind which a rule leaves out a node."""
    return wraps(form)(lambda g, *given, **named: g.relu(g.relu(form(g, *given, **named))))


def once(form):
    """What the rule writes for it, which is right."""
    return wraps(form)(lambda g, *given, **named: g.relu(form(g, *given, **named)))


def doubled(case):
    """A rule that leaves out the second of two nodes behind what the cut is to hold."""
    form = SIZES[case][1]
    return make(twice(form), once(form), name="once")


REST = "r = Relu(a) y = Relu(r)"
SIZES = {
    "broadcast": (
        f"(float[n, m] x, float[p, q] z) => (float[n, m] y) {{ a = Add(x, z) {REST} }}",
        lambda g, x, z: g.add(x, z),
        {"n": "p", "m": "q"},
    ),
    "beside 1": (
        f"(float[n, m] x, float[p, 1] z) => (float[n, m] y) {{ a = Add(x, z) {REST} }}",
        lambda g, x, z: g.add(x, z),
        {"n": "p", "m": None},
    ),
    "product": (
        f"(float[n, m] x, float[p, q] z) => (float[n, q] y) {{ a = MatMul(x, z) {REST} }}",
        lambda g, x, z: g.matmul(x, z),
        {"m": "p", "n": None},
    ),
    "joined": (
        f"(float[n, m] x, float[p, q] z) => (float[k, m] y) {{ a = Concat<axis = 0>(x, z) {REST} }}",
        lambda g, x, z: g.concat(x, z, axis=0),
        {"m": "q", "n": None},
    ),
    "attention": (
        f"""(float[a, 2, n, 4] q, float[c, 2, m, 4] k, float[e, 2, l, 4] v, float[s, t] bias) => (float[a, 2, n, 4] y)
        {{ a = Attention(q, k, v, bias) {REST} }}""",
        lambda g, q, k, v, bias: g.attention(q, k, v, bias),
        {"a": "e", "c": "e", "l": "t", "m": "t", "n": "s"},
    ),
    "rotary tables": (
        f"""(float[a, 2, n, 4] x, float[c, m, 2] cos, float[e, l, 2] sin) => (float[a, 2, n, 4] y)
        {{ a = RotaryEmbedding(x, cos, sin) {REST} }}""",
        lambda g, x, cos, sin: g.rotary_embedding(x, cos, sin),
        {"a": "e", "c": "e", "l": "n", "m": "n"},
    ),
    "by index": (
        f"""(float[words, 4] table, int64[count] like) => (float[count, 4] y) <int64 zero = {{0}}, int64 one = {{1}}>
        {{ s = Size(like) places = Range(zero, s, one) a = Gather(table, places) {REST} }}""",
        lambda g, x, z: g.gather(x, z),
        {"words": "count"},
    ),
    "scales": (
        f"(float[n, m] x) => (float[n, m] y) <float[2] s = {{1, 2}}> {{ a = LayerNormalization(x, s) {REST} }}",
        lambda g, x, s: g.layer_normalization(x, s),
        {"m": "2"},
    ),
    "channels": (
        f"(float[n, m, 5] x) => (float[n, m, 5] y) <float[2] s = {{1, 2}}> "
        f"{{ a = InstanceNormalization(x, s, s) {REST} }}",
        lambda g, x, s: g.instance_normalization(x, s, s),
        {"m": "2"},
    ),
    "kernels of groups": (
        f"(float[n, m, 5] x, float[6, 2, 3] w) => (float[n, 6, 3] y) {{ a = Conv<group = 2>(x, w) {REST} }}",
        lambda g, x, w: g.conv(x, w, group=2),
        {"m": "4"},
    ),
    "turned kernels": (
        f"(float[n, m, 5] x, float[2, 6, 3] w) => (float[n, 6, 7] y) {{ a = ConvTranspose(x, w) {REST} }}",
        lambda g, x, w: g.conv_transpose(x, w),
        {"m": "2"},
    ),
    "columns of a recurrence": (
        f"(float[n, 1, m] x, float[1, 3, 2] w, float[1, 3, 3] q) => (float[n, 1, 1, 3] y) "
        f"{{ a = RNN<hidden_size = 3>(x, w, q) {REST} }}",
        lambda g, x, w, q: g.rnn(x, w, q, hidden_size=3, outputs=1)[0],
        {"m": "2"},
    ),
    "a number": (
        f"(float[n, m] x, float[4, q] z) => (float[n, m] y) {{ a = Add(x, z) {REST} }}",
        lambda g, x, z: g.add(x, z),
        {"n": "4"},
    ),
}


@pytest.mark.parametrize("case", SIZES)
def test_sizes_that_follow(case, monkeypatch):
    """Each op says which sizes it wants equal, and which large enough; the others stay free."""
    text, _, wanted = SIZES[case]
    report, cut = cut_of(f"agraph {text}", doubled(case), monkeypatch)
    assert report.outcome == "proved", [site.reason for site in report.sites]
    follows = {name: str(size) for name, size in SizeSolver(wanted_by(cut)).solved.items()}
    assert {name: follows.get(name) for name in wanted} == wanted


# The same mask as one line of all its numbers, places computed from the length of a line, as TorchScript writes it.
BY_PLACES = """agraph (float[batch, rows, 4] x, float[batch, past, 4] cache, int64[lines, total] mask,
    float[b, r, k] scores) => (float[b, r, k] y) <
    int64 zero = {0}, int64 one = {1}, int64[1] flat = {-1}, int64[1] second = {1}, float low = {-1.0}> {
    xs = Shape(x) cs = Shape(cache) ms = Shape(mask) count = Gather(xs, zero) new = Gather(xs, one)
    old = Gather(cs, one) length = Gather(ms, one) keys = Add(old, new)
    places = Range(zero, keys, one) lines_ = Range(zero, count, one) l = Unsqueeze(lines_, second)
    starts = Mul(l, length) at = Add(starts, places)
    truth = Cast<to = 9>(mask) all = Reshape(truth, flat) seen = Gather(all, at) m = Unsqueeze(seen, second)
    w = Where(m, scores, low) y = Relu(w) }"""


def test_a_mask_read_by_computed_places(monkeypatch):
    """The excess of a product over another is solved where two of its sizes are taken for equal."""
    report, cut = cut_of(BY_PLACES, masked, monkeypatch)
    assert report.outcome == "proved", [site.reason for site in report.sites]
    sizes = SizeSolver(wanted_by(cut)).sizes(
        {"batch": 2, "rows": 3, "past": 5, "lines": 7, "total": 11, "b": 13, "r": 17, "k": 19}, {}
    )
    assert sizes["lines"] == sizes["batch"] == sizes["b"]
    assert sizes["total"] == sizes["past"] + sizes["rows"] == sizes["k"]


def test_sizes_that_the_user_chose_stay(monkeypatch):
    _, cut = cut_of(f"agraph {SIZES['broadcast'][0]}", doubled("broadcast"), monkeypatch)
    sizes = SizeSolver(wanted_by(cut)).sizes({"n": 2, "m": 3, "p": 5, "q": 7}, {"n": 11})
    assert sizes == {"n": 11, "m": 7, "p": 5, "q": 7}


PAST, ROWS = symbol("past"), symbol("rows")


@pytest.mark.parametrize(
    ("constraints", "chosen", "wanted"),
    [
        pytest.param([SizeConstraint(32, PAST + ROWS, at_least=True)], {}, (27, 5), id="the largest is made smaller"),
        pytest.param([SizeConstraint(32, PAST + ROWS, at_least=True)], {"past": 30}, (30, 2), id="a chosen one is not"),
        pytest.param([SizeConstraint(4, PAST + ROWS, at_least=True)], {}, (1, 3), id="then the next"),
        pytest.param([SizeConstraint(3, PAST + ROWS + 2, at_least=True)], {}, (1, 1), id="none below 1"),
        pytest.param([SizeConstraint(99, PAST + ROWS, at_least=True)], {}, (32, 5), id="there is room"),
        pytest.param([SizeConstraint(9, PAST - ROWS, at_least=True)], {}, (14, 5), id="of what makes it large alone"),
        pytest.param(
            [SizeConstraint(PAST, 4 * ROWS), SizeConstraint(10, PAST, at_least=True)],
            {},
            (8, 2),
            id="what others follow from",
        ),
        pytest.param([SizeConstraint(4 * ROWS, ROWS, is_soft=True)], {}, (32, 5), id="no guess leaves nothing"),
    ],
)
def test_what_a_table_has_room_for(constraints, chosen, wanted):
    """A table of so many rows makes nothing larger."""
    sizes = SizeSolver(constraints).sizes({"past": 32, "rows": 5}, chosen)
    assert (sizes["past"], sizes["rows"]) == wanted


WITHOUT_ROWS = """(float[b, 2, n, 4] q, bool[1, 1] mask) => (float[b, 2, n, 4] y)
    { a = Attention(q, q, q, mask) r = Relu(a) y = Relu(r) }"""


@pytest.mark.parametrize(
    ("right", "wanted", "by"), [(True, "proved", "onnx's ReferenceEvaluator"), (False, "failed", "ONNX Runtime")]
)
def test_what_no_kernel_takes_is_proved_by_the_definition(right, wanted, by, monkeypatch):
    """ONNX Runtime's kernel of Attention wants a mask of all rows; the op broadcasts it.

    What is wrong where the kernel runs, at one row, no definition makes right.
    """

    def form(g: Graph, q: Tensor, mask: Tensor) -> Tensor:
        return g.attention(q, q, q, mask)

    written = once(form) if right else wraps(form)(lambda g, q, mask: g.add(g.relu(form(g, q, mask)), 1.0))
    report, _ = cut_of(f"agraph {WITHOUT_ROWS}", make(twice(form), written, name="once"), monkeypatch)
    (site,) = (*report.sites, *report.rolled_back)
    assert site.outcome == wanted, site.reason
    assert site.proof.oracle == by
