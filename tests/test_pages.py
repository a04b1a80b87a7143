"""Results as HTML: what is on a page of each kind, that names are data, and what stands inside for programs."""

import html
import json
import re
from html.parser import HTMLParser
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import surgeon
from surgeon.authoring.rule_proof.prover import prove_rule
from surgeon.diagnostics.explanation import explanations
from surgeon.display.blocks import Table
from surgeon.display.content.rewrite import report_json
from surgeon.display.envelope import SCHEMA
from surgeon.display.html.elements import element, escape
from surgeon.display.html.html_renderer import MAX_PICTURES, HtmlRenderer
from surgeon.display.html.render import fragment
from surgeon.display.registry import BUILDERS, HOMES
from surgeon.errors import UsageError
from surgeon.testing import parse
from tests.bench_results import bench_of
from tests.command_line import ROOT, files_in, gelus, one_sentence, result_in, run
from tests.decoders.models import decoder

DISTILBERT = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"
HOSTILE = "<img src=x onerror=alert(1)>\"'&\u202e\x07"
VOID = {"meta", "img", "br", "rect", "path", "line", "circle"}


class Outline(HTMLParser):
    """The elements of a page in order, and whether each is closed where it has to be."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.wrong = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def read_report(path):
    """The JSON in a page."""
    _, _, rest = Path(path).read_text(encoding="utf-8").partition('id="surgeon-report">')
    return json.loads(rest.partition("</script>")[0])


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """One result of each kind, by its name in JSON."""
    out = tmp_path_factory.mktemp("pages")
    _, report = surgeon.rewrite(DISTILBERT, "gelu,skip_layer_norm", output=out / "fused.onnx")
    _, edited = surgeon.edit(DISTILBERT, [surgeon.edits.Rename("input_ids", "tokens")], output=out / "edited.onnx")
    recipe = surgeon.Recipe([surgeon.edits.Rename("input_ids", "tokens"), surgeon.Rules("gelu")])
    loads, slower = ([first + place / 100 for place in range(20)] for first in (1.0, 1.5))
    _, split = surgeon.split(DISTILBERT, out / "parts", at=["gelu"], check="none")
    return {
        "rewrite": report,
        "site": report.sites[0],
        "match": next(iter(surgeon.find(DISTILBERT, "gelu"))),
        "miss": surgeon.explain(DISTILBERT, "skip_layer_norm")[0],
        "misses": surgeon.explain(DISTILBERT, "skip_layer_norm,quick_gelu"),
        "explanation": explanations(DISTILBERT, "skip_layer_norm")[0],
        "explain": explanations(DISTILBERT, "skip_layer_norm,gelu"),
        "check": surgeon.check(gelus_with_a_stranger(), load=False),
        "comparison": surgeon.compare(DISTILBERT, out / "fused.onnx", layers=True),
        "bench": bench_of({"a.onnx": loads, "b.onnx": slower}),
        "edit": edited,
        "run": surgeon.run(recipe, DISTILBERT, out / "ran.onnx")[1],
        "split": split,
        "decoder": surgeon.decoder(decoder(), out / "decoder", eos=3, keep_graph=True),
        "convert": surgeon.convert(DISTILBERT, output=out / "half.onnx")[1],
        "quantize": surgeon.convert(DISTILBERT, "int8", output=out / "int8.onnx")[1],
        "gate": surgeon.gate(DISTILBERT, baseline=out / "facts.json"),
        "fleet": surgeon.run_many(surgeon.Recipe([surgeon.Rules("gelu")]), DISTILBERT, to=out / "fleet"),
        "rule": surgeon.patterns.activations.gelu.gelu,
        "inspect": surgeon.inspect(DISTILBERT),
        "capture": surgeon.capture(DISTILBERT, ["linear_4"], ["gelu"], "activation"),
        "trial": surgeon.try_rule("skip_layer_norm", DISTILBERT),
        "proof": prove_rule(surgeon.patterns.activations.gelu.gelu, targets=["onnx"], quick=True),
        "upgrade": surgeon.upgrade(DISTILBERT, 20, output=out / "newer.onnx", check="none"),
        "diff": surgeon.diff(DISTILBERT, out / "fused.onnx"),
    }


def gelus_with_a_stranger():
    return parse("""<ir_version: 8, opset_import: ["" : 18, "acme" : 1]> g (float[4] x) => (float[4] y) {
        a = Relu (x)  y = acme.blend (a) }""")


def outline(text):
    found = Outline(text)
    assert (found.open, found.wrong) == ([], [])
    return found.tags


for module in HOMES:
    import_module(f"surgeon.display.content.{module}")
KINDS = sorted(found.kind for found in BUILDERS.values())


def test_every_kind_of_result_is_tried(results):
    """Each has a builder, in the module that is said to be its home."""
    assert sorted(results) == KINDS
    homes = {f"surgeon.display.content.{home}": set(names.split()) for home, names in HOMES.items()}
    found = {home: set[str]() for home in homes}
    for kind, builder in BUILDERS.items():
        found[builder.build.__module__].add(kind.__name__)
    assert found == homes


@pytest.mark.parametrize("kind", KINDS)
def test_a_notebook_shows_it_without_a_script(results, kind):
    """A fragment is whole, closed, and nothing in it runs or loads."""
    text = results[kind]._repr_html_()
    tags = outline(text)
    assert not {"script", "link", "iframe"} & {tag for tag, _ in tags}
    assert not [name for _, given in tags for name in given if name.startswith("on")]
    sources = [given["src"] for _, given in tags if "src" in given]
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    assert all(given.get("alt") for tag, given in tags if tag == "img")
    assert len(re.sub(r"<style>.*?</style>|<[^>]+>", "", text, flags=re.DOTALL)) > 30


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_sanitiser_leaves_can_be_read(results, kind):
    """Where notebooks are only rendered, styles and classes are taken out: each word, table, fold and picture stays."""
    sanitiser = pytest.importorskip("nh3", reason="nothing sanitises: pip install nh3")
    text = results[kind]._repr_html_()
    left = sanitiser.clean(text, url_schemes=sanitiser.ALLOWED_URL_SCHEMES | {"data"})
    assert not re.search("<style|<script|class=|style=", left)
    before, after = ([tag for tag, _ in outline(found) if tag not in ("style", "section")] for found in (text, left))
    assert after == before
    assert words(left) == words(text)
    assert sanitiser.clean(text).count("alt=") == text.count("alt=")  # where no data are let through, what is on them


def words(text):
    """What stands on a page."""
    return html.unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", text, flags=re.DOTALL)).split()


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_holds_the_same_for_programs(results, kind, tmp_path):
    """The record has the schema, the versions, the kind, and what `to_dict` has."""
    path = surgeon.page(results[kind], command="surgeon and so on").save(tmp_path / "page.html")
    record = read_report(path)
    assert (record["schema"], record["command"]) == (SCHEMA, "surgeon and so on")
    assert set(record["versions"]) == {"python", "surgeon", "onnx", "onnxruntime", "numpy"}
    assert [one["kind"] for one in record["results"]] == [kind]
    if hasattr(results[kind], "to_dict"):
        data = json.loads(json.dumps(results[kind].to_dict()))
        assert whole(record["results"][0]["result"]) == whole(data)
    tags = outline(path.read_text(encoding="utf-8"))
    assert [given["id"] for tag, given in tags if tag == "script" and "id" in given] == ["surgeon-report"]
    assert not [given for _, given in tags if "src" in given or "href" in given]


def whole(data):
    """A record without the sites that are like others, of which a page has the first alone."""
    if isinstance(data, dict):
        return {key: whole(one) for key, one in data.items() if key not in ("sites", "rolled_back")}
    return [whole(one) for one in data] if isinstance(data, list) else data


def test_a_report_shows_each_kind_of_site_once(results):
    """Four equal sites are one picture, before and after, with the names of all four."""
    text = surgeon.page(results["rewrite"]).html
    assert text.count("</b> × 4 at <code>node_gelu and 3 more</code>") == 1
    assert text.count("gelu, before</text>") == 1
    assert text.count("float32[batch,sequence,32]") > 2  # tensors with their dtypes and sizes
    for name in ("node_gelu_1", "node_gelu_2", "node_gelu_3"):
        assert f"<li><code>{name}</code></li>" in text
    assert "<dd>10 of 10 sites; largest error " in text
    assert "against float64 under ONNX Runtime" in text


def test_what_was_rolled_back_is_reported_with_its_numbers():
    @surgeon.rule(patterns=[tripled], target="any")
    def wrong(g: surgeon.Graph, x: surgeon.Tensor) -> surgeon.Tensor:
        return g.mul(x, 3.5)

    model = parse('<ir_version: 8, opset_import: ["" : 18]> g (float[n] x) => (float[n] y) <float c = {3.0}> '
                  "{ y = Mul (x, c) }")
    with pytest.raises(surgeon.CheckFailed) as failure:
        surgeon.rewrite(model, wrong)
    text = failure.value.report._repr_html_()
    assert "Rolled back" in text
    assert re.search(r'badge failed">FAILED</span> <b>wrong</b> at <code>y</code>', text)
    assert "instead of" in text


def tripled(g: surgeon.Graph, x: surgeon.Tensor) -> surgeon.Tensor:
    """x times three."""
    return g.mul(x, 3.0)


def test_a_model_unfolds_to_what_repeats_in_it(results):
    """Four layers are one line, which unfolds to the first of them; JSON has the facts alone."""
    body = " ".join(f"b{at} = Relu (a{at}) a{at + 1} = Neg (b{at})" for at in range(4))
    model = parse(f'<ir_version: 8, opset_import: ["" : 18]> g (float[4] a0) => (float[4] a4) {{ {body} }}')
    for at, node in enumerate(model.graph.node):
        node.name = f"/encoder/layer.{at // 2}/{node.op_type}"
    text = surgeon.inspect(model)._repr_html_()
    assert "<code>layer.0 … layer.3</code> × 4, 8 nodes" in text
    assert text.count("<code>layer.0</code>, 2 nodes") == 1
    assert "layer.1<" not in text
    assert "distilbert" in results["inspect"]._repr_html_()
    assert "_graph" not in results["inspect"].to_dict()


def test_a_miss_is_marked_beside_the_pattern(results):
    """In the picture of the model, and in the pattern as it is written."""
    text = surgeon.page(results["misses"]).html
    assert text.count('stroke="#d1242f"') >= 1
    assert ">the model</text>" in text
    assert "<mark>" in text
    assert "the model has no Sigmoid" in text


def test_names_of_a_model_are_data(tmp_path):
    """They neither end an element nor begin one, and marks of direction are spelled out."""
    assert escape(HOSTILE) == "&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;\\u202e\\x07"
    model = onnx.load(DISTILBERT)
    for node in model.graph.node:
        node.name = f"{node.name}</code></script>{HOSTILE}"
    _, report = surgeon.rewrite(model, "gelu", check="none")
    misses = explanations(model, "gelu,skip_layer_norm")
    page = surgeon.page(report, misses, surgeon.inspect(model), title=HOSTILE, command=HOSTILE)
    for text in (page.html, report._repr_html_(), misses._repr_html_()):
        tags = outline(text)
        assert not [given for _, given in tags if "onerror" in given]
        assert "\u202e" not in text
        assert "\x07" not in text
    path = page.save(tmp_path / "page.html")
    assert read_report(path)["command"] == HOSTILE


def test_five_hundred_sites_are_less_than_a_megabyte():
    """Equal sites are told once, by picture and in JSON, which names the others and says which one they are like."""
    count, many = 500, 12
    names = [f'"/encoder/layer.{n // many}/intermediate/activation/Step_{n % many}"' for n in range(count * many)]
    lines = [f"{to} = {('Relu', 'Neg')[n % 2]} ({at})" for n, (at, to) in enumerate(pairwise(["x", *names]))]
    head, ends = '<ir_version: 8, opset_import: ["" : 18]>', f"(float[n] x) => (float[n] {names[-1]})"
    model = parse(f"{head} g {ends} {{ {' '.join(lines)} }}")

    def dozen(g: surgeon.Graph, x: surgeon.Tensor) -> surgeon.Tensor:
        for _ in range(many // 2):
            x = g.neg(g.relu(x))
        return x

    @surgeon.rule(patterns=[dozen], target="any")
    def none_but_one(g: surgeon.Graph, x: surgeon.Tensor) -> surgeon.Tensor:
        """Write one op of ours."""
        return g.op("acme::Dozen", x)

    _, report = surgeon.rewrite(model, none_but_one, check="none")
    assert len(report.sites) == count
    page = surgeon.page(report)
    assert len(page.html) < 1_000_000
    assert page.html.count("<svg") == 1
    assert len(report._repr_html_()) < 200_000
    first, *others = report_json(report)["sites"]
    assert first == report.to_dict()["sites"][0]
    assert [one["like"] for one in others] == [0] * (count - 1)
    assert [one["root"] for one in others] == [site.root for site in report.sites[1:]]


def test_pictures_end_where_they_would_be_too_many(monkeypatch, results):
    monkeypatch.setitem(MAX_PICTURES, True, 0)
    text = surgeon.page(results["rewrite"]).html
    assert "<svg" not in text
    assert "<ins>+ gelu" in text or "<ins>+ " in text  # the nodes stand there instead


def test_without_the_library_that_lays_out_the_nodes_are_reported(monkeypatch, results):
    def missing(*_):
        raise UsageError('Pictures need a library: pip install "onnx-surgeon[pictures]".')

    monkeypatch.setattr("surgeon.display.pictures.svg.arrange", missing)
    text = results["rewrite"]._repr_html_()
    assert "No picture: Pictures need a library" in text
    assert "<img" not in text


def test_numbers_sort_by_value():
    texts = [str(HtmlRenderer().block(Table("all", ("a",), rows))) for rows in ([("0",), ("1",)], [(0,), (1,)])]
    assert ["data-value" in text for text in texts] == [False, True]
    assert element("p", "<", lang=None, class_="a-b") == '<p class="a-b">&lt;</p>'


@pytest.mark.parametrize("what", [3, None, "a model", SimpleNamespace(), np.zeros(3)])
def test_what_no_page_knows_is_refused(what):
    with pytest.raises(UsageError, match=r"^Nothing is known of how to show \w+: give what surgeon returned\.$"):
        fragment(what)


def test_a_page_is_refused_where_it_could_not_be_one(results, tmp_path):
    with pytest.raises(UsageError, match="No result given"):
        surgeon.page()
    with pytest.raises(UsageError, match=r"give a name that ends in \.html"):
        surgeon.page(results["check"]).save(tmp_path / "page.txt")
    with pytest.raises(surgeon.ModelFileError, match="cannot be written"):
        surgeon.page(results["check"]).save(tmp_path / "nowhere" / "page.html")


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (("rewrite", "in.onnx", "out.onnx", "--rules", "gelu"), "rewrite"),
        (("edit", "in.onnx", "out.onnx", "--rename", "x=pixels"), "edit"),
        (("explain", "in.onnx", "--rules", "quick_gelu"), "explain"),
        (("check", "in.onnx", "--no-load"), "check"),
        (("compare", "in.onnx", "in.onnx"), "comparison"),
        (("bench", "in.onnx", "in.onnx", "--dim", "n=3", "--seconds", "0", "--loads", "1"), "bench"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_commands_write_pages_and_json(command, kind, tmp_path, monkeypatch):
    """By the ending; the page names what was typed; an older report is replaced, and nothing else is."""
    monkeypatch.chdir(tmp_path)
    gelus(tmp_path)
    assert run(*command, "--report", "page.html").exit_code == 0
    record = read_report("page.html")
    assert record["results"][0]["kind"] == kind
    assert record["command"].startswith(f"surgeon {command[0]} in.onnx")
    assert run(*command, "--report", "page.html").exit_code == 0
    assert run(*command, "--report", "report.json").exit_code == 0
    data = result_in((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert set(record["results"][0]["result"]) == set(data)
    assert run(*command, "--report", "report.json").exit_code == 0
    (tmp_path / "notes.html").write_text("<p>mine</p>", encoding="utf-8")
    before = files_in(tmp_path)
    refused = run(*command, "--report", "notes.html")
    assert "which is not a report" in one_sentence(refused, 2)
    assert files_in(tmp_path) == before
