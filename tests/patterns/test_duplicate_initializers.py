"""Initializers that hold the same bytes: which are shared, which only look alike, and that no weight is loaded."""

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from surgeon.patterns.cleanup.duplicate_initializers import duplicate_initializers
from surgeon.patterns.cleanup.duplicates import duplicate_nodes

import surgeon
from surgeon import Graph, Tensor, rule, searches
from surgeon.cli.app import main
from surgeon.file.model import Model
from surgeon.file.tensors.content_equality import TensorContents
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.command_line import runner
from tests.models import ops

HEAD = "(float[n, 4] x) => (float[n, 4] y)"
WIDE = "(float[n, 5000] x) => (float[n, 5000] y)"
TWO = "float[4] k = {1, 2, 3, 4}, float[4] l = {1, 2, 3, 4}"
BODY = "a = Mul(x, k) y = Add(a, l)"
LIST = [1, 2, 3, 4]
NONE = "no two initializers that can be shared"


def model(body=BODY, constants=TWO, head=HEAD, **settings):
    """One input x and one output y."""
    return parse(f"{head} <{constants}> {{ {body} }}", **settings)


def stored(*tensors, body=BODY, head=HEAD):
    """`BODY` over tensors made by hand."""
    made = parse(f"{head} <{', '.join(f'float {item.name} = {{0}}' for item in tensors)}> {{ {body} }}")
    del made.graph.initializer[:]
    made.graph.initializer.extend(tensors)
    return made


def tensor(name, values, dtype=np.float32, doc_string="", note=""):
    """An initializer in raw_data, with a doc string or an entry of metadata where there is one."""
    made = numpy_helper.from_array(np.asarray(values, dtype), name)
    made.doc_string = doc_string
    if note:
        made.metadata_props.add(key="note", value=note)
    return made


def typed(name, values):
    """An initializer in float_data."""
    return helper.make_tensor(name, TensorProto.FLOAT, [len(values)], values)


def nan(low):
    """Four NaNs with these low bits."""
    return np.array([0x7FC00000 + low] * 4, np.uint32).view(np.float32)


def large(name, last=0.5):
    """5,000 floats, which stay in the file; only the last but 100 may differ."""
    values = np.full(5000, 0.5)
    values[-100] = last
    return tensor(name, values)


def annotated(name):
    """`TWO` with a quantization annotation of one tensor."""
    made = model()
    made.graph.quantization_annotation.add().tensor_name = name
    return made


def trained():
    """`TWO` with a training binding of one tensor."""
    made = model()
    made.training_info.add().update_binding.add(key="l", value="l")
    return made


def sparse():
    """Two equal sparse initializers."""
    made = parse(f"{HEAD} {{ {BODY} }}")
    for name in ("k", "l"):
        values, indices = tensor(name, [1]), tensor("", [2], np.int64)
        made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    return made


def external(path, *places, offset=0):
    """`BODY` over k and l of 5,000 floats in `data`, at these places of the file."""
    made = stored(large("k"), large("l"), head=WIDE)
    for item, place in zip(made.graph.initializer, places, strict=True):
        item.ClearField("raw_data")
        item.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "data"), ("offset", place), ("length", 20000)):
            item.external_data.add(key=key, value=str(value))
    path.write_bytes(made.SerializeToString())
    return made


IF = """(float[n, 4] x, bool c) => (float[n, 4] y) <float[4] k = {1, 2, 3, 4}, float[4] l = {1, 2, 3, 4}>
    { a = Mul(x, k) y = If<then_branch = g () => (float[n, 4] p) { p = Add(a, l) },
      else_branch = h () => (float[n, 4] q) OWN { q = Mul(a, l) }>(c) }"""

FIRES = [
    Case(duplicate_initializers, "two of a kind", model()),
    Case(
        duplicate_initializers,
        "three of a kind, one of them read twice by a node",
        model("a = Sum(k, l, l, x) y = Mul(a, m)", f"{TWO}, float[4] m = {{1, 2, 3, 4}}"),
        sites=2,
    ),
    Case(duplicate_initializers, "one number", model(constants="float k = {3}, float l = {3}")),
    Case(
        duplicate_initializers,
        "shapes",
        model("a = Reshape(x, k) b = Reshape(a, l) y = Add(b, x)", "int64[2] k = {-1, 4}, int64[2] l = {-1, 4}"),
    ),
    Case(duplicate_initializers, "raw data and floats", stored(tensor("k", LIST), typed("l", LIST))),
    Case(duplicate_initializers, "large ones", stored(large("k"), large("l"), head=WIDE)),
    Case(
        duplicate_initializers,
        "large ones, raw data and floats",
        stored(typed("k", [0.5] * 5000), large("l"), head=WIDE),
    ),
    Case(
        duplicate_initializers,
        "equal doc strings and metadata",
        stored(*(tensor(name, LIST, doc_string="a scale", note="of the head") for name in "kl")),
    ),
    Case(
        duplicate_initializers,
        "strings",
        parse(
            '<ir_version: 9, opset_import: ["" : 19]> agraph (string[n] x) => (bool[n] y) '
            '<string k = {"cat"}, string l = {"cat"}> '
            "{ a = Equal(x, k) b = Equal(x, l) y = And(a, b) }"
        ),
        check="sites",  # no text made up is a cat
    ),
    Case(
        duplicate_initializers,
        "below IR 4, where each is an input",
        model(head="(float[n, 4] x, float[4] k, float[4] l) => (float[n, 4] y)", ir_version=3),
    ),
    Case(
        duplicate_initializers,
        "within a body",
        parse(
            """(float[n, 4] x, bool c) => (float[n, 4] y) { y = If<then_branch = g () => (float[n, 4] p)
            <float[4] k = {1, 2, 3, 4}, float[4] l = {1, 2, 3, 4}> { a = Mul(x, k) p = Add(a, l) },
            else_branch = h () => (float[n, 4] q) { q = Neg(x) }>(c) }"""
        ),
    ),
    Case(
        [duplicate_initializers, duplicate_nodes],
        "and then the nodes that read them",
        stored(large("k"), large("l"), body="a = Mul(x, k) b = Mul(x, l) y = Add(a, b)", head=WIDE),
        sites=2,
    ),
    Case(duplicate_initializers, "for any target", model(), target="onnx"),
]
NEGATIVES = [
    Case(
        duplicate_initializers,
        "other values",
        model(constants="float[4] k = {1, 2, 3, 4}, float[4] l = {1, 2, 3, 5}"),
        why=NONE,
    ),
    Case(
        duplicate_initializers,
        "other values deep inside",
        stored(large("k"), large("l", last=0.25), head=WIDE),
        why=NONE,
    ),
    Case(
        duplicate_initializers,
        "another shape",
        model(constants="float[4] k = {1, 2, 3, 4}, float[1, 4] l = {1, 2, 3, 4}"),
        why=NONE,
    ),
    Case(
        duplicate_initializers,
        "another dtype of the same bytes",
        model(
            "a = Mul(x, k) b = Cast<to = 1>(l) y = Add(a, b)",
            "float[4] k = {0, 0, 0, 0}, int32[4] l = {0, 0, 0, 0}",
        ),
        why=NONE,
    ),
    Case(
        duplicate_initializers,
        "a negative zero",
        stored(tensor("k", [0.0] * 4), tensor("l", [0.0] * 3 + [-0.0])),
        why=NONE,
    ),
    Case(
        duplicate_initializers,
        "two spellings of NaN",
        stored(tensor("k", nan(0)), tensor("l", nan(1))),
        why=NONE,
    ),
    Case(
        duplicate_initializers,
        "one that a caller may set",
        model(head="(float[n, 4] x, float[4] l) => (float[n, 4] y)"),
        why="only until a caller gives the input 'l' another value",
    ),
    Case(
        duplicate_initializers,
        "the first is one that a caller may set",
        model(head="(float[n, 4] x, float[4] k) => (float[n, 4] y)"),
        why="only until a caller gives the input 'k' another value",
    ),
    Case(
        duplicate_initializers,
        "an output of the graph",
        model(head="(float[n, 4] x) => (float[n, 4] y, float[4] l)"),
        why="'l' equals 'k', but must keep its name: it is an output of the graph",
    ),
    Case(
        duplicate_initializers,
        "an output of a body",
        parse(IF.replace("p = Add(a, l) }", "p = Add(a, a) }").replace("=> (float[n, 4] q) OWN", "=> (float[4] l)")),
        why="must keep its name: it is an output of",
        check=False,
    ),
    Case(duplicate_initializers, "a quantization annotation", annotated("l"), why="it has a quantization annotation"),
    Case(
        duplicate_initializers,
        "a quantization annotation of the first",
        annotated("k"),
        why="'k' equals 'l', but must keep its name: it has a quantization annotation",
    ),
    Case(duplicate_initializers, "a training binding", trained(), why="a training binding uses it"),
    Case(
        duplicate_initializers,
        "a doc string of its own",
        stored(tensor("k", LIST), tensor("l", LIST, doc_string="the scale of the head")),
        why=NONE,
    ),
    Case(
        duplicate_initializers,
        "metadata of its own",
        stored(tensor("k", LIST, note="body"), tensor("l", LIST, note="head")),
        why=NONE,
    ),
    Case(
        duplicate_initializers,
        "a body that has a tensor of the first's name",
        parse(IF.replace("OWN", "<float[4] k = {5, 6, 7, 8}>").replace("Mul(a, l)", "Sum(a, k, l)")),
        why="a body that reads 'l' defines its own 'k'",
    ),
    Case(duplicate_initializers, "nobody reads it", model("y = Mul(x, k)"), why=NONE),
    Case(duplicate_initializers, "sparse", sparse(), why=NONE),
    Case(duplicate_initializers, "none can be decomposed", model(), target="decomposed", why="writes no op"),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_what_is_left_is_what_was_there():
    """The first keeps its record and its readers theirs; of the others the record and the value_info go."""
    source = model(f"{BODY[:-14]} b = Add(a, l) y = Neg(b)")
    source.graph.value_info.append(helper.make_tensor_value_info("l", TensorProto.FLOAT, [4]))
    source.graph.node[1].doc_string = "kept"
    made, _ = surgeon.rewrite(source, duplicate_initializers)
    expected = onnx.ModelProto()
    expected.CopyFrom(source)
    expected.graph.node[1].input[1] = "k"
    del expected.graph.initializer[1]
    del expected.graph.value_info[0]
    assert made.SerializeToString() == expected.SerializeToString()


def test_bodies_read_what_stays():
    """Both branches read the initializer around them that went."""
    made, report = surgeon.rewrite(parse(IF.replace("OWN", "")), duplicate_initializers, check="both")
    assert report.outcome == "proved"
    assert [item.g.node[0].input[1] for item in made.graph.node[1].attribute] == ["k", "k"]
    assert [item.name for item in made.graph.initializer] == ["k"]


def test_report_names_what_went():
    """In the data, in the lines of --diff, and in the table."""
    _, report = surgeon.rewrite(model(), duplicate_initializers)
    (site,) = report.sites
    assert (site.root, site.shared) == ("l", {"l": "k"})
    assert site.proof.oracle == "a comparison of all bytes"
    assert json.loads(json.dumps(report.to_dict()))["sites"][0]["shared"] == {"l": "k"}


def test_command_line(tmp_path):
    """--diff names both; --skip, --only and --expect hold; --dry-run writes nothing."""
    onnx.save(model(), tmp_path / "in.onnx")
    files = [str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--rules", "duplicate_initializers"]

    def run(*options, command="rewrite", args=files):
        ran = runner().invoke(main, [command, *args, *options])
        return ran.exit_code, ran.output + (ran.stderr if ran.stderr_bytes else "")

    code, text = run("--diff", "--dry-run")
    assert not code
    assert "- initializer l\n+ its readers read k" in text
    assert not (tmp_path / "out.onnx").exists()
    assert "--skip excludes this node" in run("--skip", "l", "--dry-run")[1]
    assert "--only excludes this node" in run("--only", "k", "--dry-run")[1]
    assert run("--expect", "duplicate_initializers=2")[0]
    assert not run("--expect", "duplicate_initializers=1", "--only", "l")[0]
    assert [item.name for item in onnx.load(tmp_path / "out.onnx").graph.initializer] == ["k"]
    explained = [str(tmp_path / "in.onnx"), "--rules", "duplicate_initializers"]
    assert "fires    1 site (l)" in run(command="explain", args=explained)[1]


def test_explained_where_one_must_stay():
    """The reason is that of the refusal."""
    (miss,) = surgeon.explain(model(head="(float[n, 4] x) => (float[n, 4] y, float[4] l)"), duplicate_initializers)
    assert "must keep its name: it is an output of the graph" in miss.reason


def test_external_data(tmp_path):
    """Bytes in a data file are compared there; the file stays as it is."""
    values = large("k").raw_data
    for data, places, sites in (
        (values + values, (0, 20000), 1),
        (values, (0, 0), 1),
        (values + large("l", last=0.25).raw_data, (0, 20000), 0),
    ):
        (tmp_path / "data").write_bytes(data)
        external(tmp_path / "in.onnx", *places)
        source, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
        _, report = surgeon.rewrite(source, duplicate_initializers, output=output, check="both")
        assert len(report.sites) == sites
        assert report.outcome == ("proved" if sites else "unchanged")
        assert (tmp_path / "data").read_bytes() == data
        if not sites:
            assert output.read_bytes() == source.read_bytes()


def test_external_data_of_a_model_in_memory(tmp_path):
    """The folder is not known: what has the same place is the same, of the rest nothing is."""
    for places, sites in (((0, 0), 1), ((0, 20000), 0)):
        made = external(tmp_path / "in.onnx", *places)
        _, report = surgeon.rewrite(made, duplicate_initializers)
        assert len(report.sites) == sites
        assert report.outcome == ("proved" if sites else "unchanged")


def test_a_missing_data_file_is_reported_as_ever(tmp_path):
    """By whoever saves; the search itself takes what it cannot read for different."""
    external(tmp_path / "in.onnx", 0, 20000)
    with pytest.raises(surgeon.SurgeonError, match="cannot be opened"):
        surgeon.rewrite(tmp_path / "in.onnx", duplicate_initializers, output=tmp_path / "x" / "out.onnx", dry_run=True)


def test_a_search_that_is_wrong_is_rolled_back():
    """The proof compares all bytes, whatever the search says."""

    def all_of_them(index, scope):
        """Every initializer but the first."""
        first, *others = list(scope.initializers)
        for name in others:
            yield searches.Found((), (name,), {"first": first})

    @rule(search=searches.Search(all_of_them, "one initializer"), target="any")
    def wrong(g: Graph, first: Tensor) -> Tensor:
        return first

    source = model("a = Sum(x, k, l) y = Mul(a, m)", f"{TWO}, float[4] m = {{1, 2, 3, 5}}")
    made, report = surgeon.rewrite(source, wrong, keep_going=True)
    assert [site.root for site in report.sites] == ["l"]
    assert [(site.root, site.reason) for site in report.rolled_back] == [("m", "the bytes of 'm' and 'k' differ")]
    assert [item.name for item in made.graph.initializer] == ["k", "m"]


class TestBesideOtherRules:
    """Sharing comes last, and ties no sites together."""

    GELU = "d{0} = Div(x{0}, s{0}) e{0} = Erf(d{0}) o{0} = Add(e{0}, one{0}) m{0} = Mul(x{0}, o{0}) "
    NORM = "h{0} = Mul(m{0}, half{0}) x{1} = LayerNormalization<axis = -1>(h{0}, w{0}, b{0}) "

    def layers(self, count):
        """Layers of a GELU and a norm, each with constants and weights of its own that equal those of the others."""
        body = "x0 = Relu(x) " + "".join((self.GELU + self.NORM).format(at, at + 1) for at in range(count))
        made = parse(f"{WIDE} {{ {body} y = Neg(x{count}) }}")
        for at in range(count):
            for name, value in (("s", 2**0.5), ("one", 1.0), ("half", 0.5)):
                made.graph.initializer.append(tensor(f"{name}{at}", value))
            made.graph.initializer.extend([large(f"w{at}"), large(f"b{at}", last=0.25)])
        return made

    def test_each_site_is_proved_on_its_own(self):
        made, report = surgeon.rewrite(self.layers(4), "ort", check="both")
        assert report.outcome == "proved"
        assert report.counts["gelu"] == 4
        assert report.counts["duplicate_initializers"] == 6  # the weights; the constants went with the GELUs
        assert len(report.sites) == 10
        assert {item.name for item in made.graph.initializer} == {"w0", "b0"}

    def test_rules_that_read_shared_weights_are_proved(self, monkeypatch):
        """The proof knows that what is read now is what was read before, though it loads neither."""
        monkeypatch.setattr("surgeon.proof.site.site_prover.MAX_READ_BYTES", 0)

        @rule(patterns=[lambda g, x, w: g.relu(g.mul(x, w))], name="limited")
        def limited(g: Graph, x: Tensor, w: Tensor) -> Tensor:
            return g.max(g.mul(w, x), 0.0)

        source = parse(f"{WIDE} {{ a = Mul(x, k) b = Relu(a) c = Mul(b, l) y = Relu(c) }}")
        source.graph.initializer.extend([large("k"), large("l")])
        for rules in ([duplicate_initializers, limited], [limited, duplicate_initializers]):
            made, report = surgeon.rewrite(source, rules, check="both")
            assert report.counts == {"duplicate_initializers": 1, "limited": 2}
            assert len(report.sites) == 3
            assert report.outcome == "proved"
            assert sum("k" in node.input for node in made.graph.node) == 2

    def test_weights_that_differ_are_still_distinguished(self):
        """A rule that mixes up two weights is right where they are equal, and fails where they are not."""

        @rule(patterns=[lambda g, x, v, w: g.relu(g.add(g.mul(x, v), w))], name="mixed")
        def mixed(g: Graph, x: Tensor, v: Tensor, w: Tensor) -> Tensor:
            return g.max(g.add(g.mul(x, w), v), 0.0)

        source = parse(f"{WIDE} {{ a = Mul(x, k) b = Add(a, l) c = Relu(b) d = Mul(c, k) e = Add(d, m) y = Relu(e) }}")
        source.graph.initializer.extend([large("k"), large("l"), large("m", last=0.25)])
        _, report = surgeon.rewrite(source, [mixed, duplicate_initializers], keep_going=True)
        assert [(site.rule, site.root) for site in report.sites] == [("mixed", "c"), ("duplicate_initializers", "l")]
        assert [(site.rule, site.root) for site in report.rolled_back] == [("mixed", "y")]

    def test_rolled_back_alone(self):
        """What another rule wrote is rolled back, and sharing stands."""

        @rule(patterns=[lambda g, x: g.relu(x)], name="wrong")
        def wrong(g: Graph, x: Tensor) -> Tensor:
            return g.abs(x)

        source = model("r = Relu(x) a = Mul(r, k) y = Add(a, l)")
        made, report = surgeon.rewrite(source, [wrong, duplicate_initializers], keep_going=True)
        assert [site.rule for site in report.rolled_back] == ["wrong"]
        assert [site.root for site in report.sites] == ["l"]
        assert ops(made.graph) == ["Relu", "Mul", "Add"]


MEMORY = """
import resource, sys, surgeon
from surgeon.patterns.cleanup.duplicate_initializers import duplicate_initializers
surgeon.rewrite(sys.argv[1], duplicate_initializers, output=sys.argv[1] + ".none", check="none", dry_run=True)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
_, report = surgeon.rewrite(sys.argv[2], duplicate_initializers, output=sys.argv[3], check=sys.argv[4])
print(len(report.sites), report.outcome, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("is_external", [True, False])
def test_weights_are_not_loaded(tmp_path, is_external):
    """Three tables of 36 MB, two of them equal, in a file of holes or in the model: a few MB of memory."""
    rows, size = 3000, 3000 * 3000 * 4
    made = parse("(float[n, 3000] x) => (float[n, 3000] y) { a = MatMul(x, k) b = MatMul(a, l) y = MatMul(b, m) }")
    if is_external:
        with open(tmp_path / "data", "wb") as file:
            file.truncate(3 * size)
            file.seek(3 * size - 100_000)
            file.write(b"\1")
    for place, name in enumerate("klm"):
        item = made.graph.initializer.add(name=name, data_type=TensorProto.FLOAT, dims=[rows, rows])
        if is_external:
            item.data_location = TensorProto.EXTERNAL
            item.external_data.add(key="location", value="data")
            item.external_data.add(key="offset", value=str(place * size))
            item.external_data.add(key="length", value=str(size))
        else:
            item.raw_data = bytes(size) if name != "m" else bytes(size - 100_000) + b"\1" + bytes(99_999)
    (tmp_path / "in.onnx").write_bytes(made.SerializeToString())
    onnx.save(model(), tmp_path / "small.onnx")
    files = [str(tmp_path / name) for name in ("small.onnx", "in.onnx", "out.onnx")]
    ran = subprocess.run(
        [sys.executable, "-c", MEMORY, *files, "sites" if is_external else "none"], capture_output=True, text=True
    )
    assert not ran.returncode, ran.stderr
    sites, outcome, kilobytes = ran.stdout.split()
    assert (sites, outcome) == ("1", "proved" if is_external else "unchecked")
    assert int(kilobytes) < 24_000
    if not is_external:
        assert (tmp_path / "in.onnx").stat().st_size - (tmp_path / "out.onnx").stat().st_size > size


def test_weights_in_the_file_that_differ_early_are_not_read(tmp_path, monkeypatch):
    """Nor are those parsed that lie in it, to see whether they lie elsewhere."""
    numbers = np.random.default_rng(0)
    weights = [tensor(name, numbers.normal(size=1 << 16)) for name in ("k", "l")]
    path = tmp_path / "in.onnx"
    onnx.save(stored(*weights, head="(float[n, 65536] x) => (float[n, 65536] y)"), path)
    monkeypatch.setattr(TensorContents, "_digest", None)
    monkeypatch.setattr(Model, "_rebuild", None)
    _, report = surgeon.rewrite(path, duplicate_initializers, output=tmp_path / "out.onnx", check="none")
    assert not report.sites


def test_what_a_kernel_writes_into_stays_its_own() -> None:
    """ONNX Runtime writes the running variance of a normalisation in training in place, and reads the scale then."""
    text = """(float[n, 2, h] x) => (float[n, 2, h] y)
        <float[2] s = {1, 2}, float[2] b = {3, 4}, float[2] c = {3, 4}, float[2] m = {0, 1}, float[2] v = {1, 2}> {
        t, rm, rv = BatchNormalization<training_mode = 1>(x, s, b, m, v) y = InstanceNormalization(t, s, c) }"""
    model = parse(text)
    made, report = surgeon.rewrite(model, "duplicate_initializers")
    assert report.outcome == "proved"
    assert [list(node.input) for node in made.graph.node] == [["x", "s", "b", "m", "v"], ["t", "s", "b"]]
