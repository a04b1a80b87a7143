"""What every command prints with --json: one envelope, as docs/reports.md says, and nothing else."""

import importlib
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

from surgeon.cli.app import main
from surgeon.display.registry import BUILDERS, HOMES
from surgeon.display.viewer.server import ViewerServer
from surgeon.errors import SurgeonError
from tests.command_line import ROOT, gelus, rule_file, run, strict_json
from tests.decoders.models import decoder

RULES = "rewrite in.onnx out.onnx --rules"
COMMANDS = {
    "append in.onnx out.onnx softmax": 0,
    "bench in.onnx in.onnx --dim n=3 --loads 1 --seconds 0": 0,
    "capture in.onnx --from h1 --to y --name block": 0,
    "check in.onnx --no-load": 0,
    "compare in.onnx in.onnx": 0,
    "convert in.onnx out.onnx --to float16": 0,
    "diff in.onnx in.onnx": 0,
    "diff in.onnx other.onnx": 1,
    "draw in.onnx out.svg": 0,
    "edit in.onnx out.onnx --rename x=pixels": 0,
    "explain in.onnx --rules quick_gelu,gelu_tanh": 0,
    "extract in.onnx out.onnx --from h1": 0,
    "insert in.onnx out.onnx --check none --between h1 --and y --op acme::gelu": 0,
    "inspect in.onnx": 0,
    "learn in.onnx same.onnx": 0,
    "merge in.onnx other.onnx out.onnx --connect y=x --prefix a_,b_": 0,
    "new rule squared_things": 0,
    "prepend picture.onnx out.onnx image --check none": 0,
    "record --json steps.toml rewrite in.onnx out.onnx --rules gelu": 0,
    f"{RULES} gelu": 0,
    f"{RULES} gelu --quiet --diff --verbose --dry-run": 0,
    f"{RULES} ./my_rules.py:wrong": 1,
    f"{RULES} gelu --expect gelu=7": 3,
    "rules": 0,
    "rules gelu,silu": 0,
    "rules nms": 0,
    "rules ./my_rules.py:raising --prove": 1,
    "decoder decoder.onnx folder --eos 2 --keep-graph": 0,
    "gate in.onnx --update": 0,
    "run recipe.toml in.onnx out.onnx": 0,
    "run recipe.toml --over i*.onnx --to fused": 0,
    "split in.onnx parts --at h1": 0,
    "upgrade in.onnx out.onnx --opset 18": 0,
    "view in.onnx": 0,
}
"""Exit codes by command line."""
ERRORS = {
    "inspect nowhere.onnx": "File not found",
    f"{RULES} no_such_rule": "Did you mean",
    f"{RULES} gelu --no-such-option": "No such option",
    "rewrite in.onnx": "Missing argument",
    "inspekt in.onnx": "Did you mean surgeon inspect",
    "draw in.onnx out.png": ".svg",
    "upgrade in.onnx nowhere/out.onnx --opset 18": "nowhere",
}
"""What command lines that end with 2 say."""
TYPES = {"text": str, "object": dict, "list": list, "number or null": (int, type(None))}
PICTURE = '<ir_version: 8, opset_import: ["" : 17]> g (float[1, 3, 8, 8] x) => (float[1, 3, 8, 8] y) { y = Relu (x) }'
PAGE = ROOT / "docs" / "reports.md"


def tables() -> Iterator[list[list[str]]]:
    """The tables below "As data", row by row."""
    section = PAGE.read_text(encoding="utf-8").partition("## As data")[2].partition("\n## ")[0]
    for table in re.findall(r"((?:^\|.*\n)+)", section, re.MULTILINE):
        yield [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()[2:]]


ENVELOPE, KINDS = ({name: rest for names, *rest in rows for name in re.findall(r"`(\w+)`", names)} for rows in tables())


def validated(text: str, code: int) -> dict[str, Any]:
    """The envelope in a text, which has nothing else: keys, types and kinds are those of the documentation."""
    record = strict_json(text)
    assert list(record) == [key for key in ("schema", "kind", "versions", "command", "exit_code", "error", "results")
                            if key != "error" or "error" in record]
    assert set(ENVELOPE) == {*record, "error"}
    for key, value in record.items():
        assert isinstance(value, TYPES[ENVELOPE[key][0]]), key
    assert (record["schema"], record["exit_code"]) == ("surgeon.report/2", code)
    for result in record["results"]:
        assert list(result) == ["kind", "result"]
        assert result["kind"] in KINDS
        named = KINDS[result["kind"]][1]
        if not named.startswith("of "):
            assert set(result["result"]) <= set(re.findall(r"`(\w+)`", named)), result["kind"]
    kinds = {result["kind"] for result in record["results"]}
    assert record["kind"] == (kinds.pop() if len(kinds) == 1 else "several" if kinds else "error")
    if "error" in record:
        assert list(record["error"]) == ["what", "where", "next", "detail"]
        assert all(isinstance(part, str) for part in record["error"].values())
        assert record["error"]["what"]
    return record


@pytest.fixture(autouse=True)
def _models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    gelus(tmp_path)
    gelus(tmp_path, 3, name="other.onnx")
    onnx.save(decoder(), "decoder.onnx")
    gelus(tmp_path, name="same.onnx")
    picture = onnx.parser.parse_model(PICTURE)
    onnx.save(picture, tmp_path / "picture.onnx")
    rule_file(tmp_path)
    (tmp_path / "recipe.toml").write_text('[[step]]\nrules = "gelu"\n')


def test_every_command_is_tried() -> None:
    """A new command needs a row here, except a server, whose standard output is a protocol."""
    names = {name for known in main.summaries.values() for name in known}
    assert {words.split()[0] for words in COMMANDS} == names - {"mcp"}


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_prints_one_envelope(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On standard output, with the exit code of the process."""

    def interrupted(_: ViewerServer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ViewerServer, "serve_forever", interrupted)
    done = run(*words.split(), *(["--json"] if "--json" not in words else []))
    assert done.exit_code == COMMANDS[words], done.output
    record = validated(done.stdout, done.exit_code)
    assert record["results"]
    assert ("error" in record) is (words.startswith("rewrite") and done.exit_code > 0)
    assert set(shlex.split(record["command"])) == {"surgeon", "--json", *words.split()}


@pytest.mark.parametrize("words", ERRORS)
def test_an_error_is_an_envelope_too(words: str) -> None:
    """Its parts make the sentence that standard error has as ever."""
    done = run(*words.split(), "--json")
    assert done.exit_code == 2
    record = validated(done.stdout, 2)
    assert record["results"] == []
    assert ERRORS[words] in f"{record['error']['what']} {record['error']['next']}"
    assert record["error"]["what"] in done.stderr
    assert record["error"]["next"] in done.stderr
    assert run(*words.split()).stdout == ""


def test_a_defect_is_an_envelope_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where surgeon itself is wrong."""

    def broken(_: object) -> None:
        raise ZeroDivisionError("no such thing")

    monkeypatch.setattr("surgeon.targets.inspection.model_summary.inspect", broken)
    done = run("inspect", "in.onnx", "--json")
    assert "ZeroDivisionError" in validated(done.stdout, 4)["error"]["what"]


@pytest.mark.parametrize("line", [f"{RULES} gelu", f"{RULES} ./my_rules.py:wrong", "compare in.onnx in.onnx"])
def test_the_screen_a_file_and_a_page_have_the_same(line: str) -> None:
    """But for the words of the command and for times."""
    words = line.split()

    def plain(text: str) -> object:
        def timeless(entry: dict[str, Any]) -> dict[str, Any]:
            return {key: value for key, value in entry.items() if key not in ("seconds", "command", "written")}

        return json.loads(text, object_hook=timeless)

    printed = run(*words, "--json", "--report", "report.json")
    assert run(*words, "--report", "page.html").exit_code == printed.exit_code
    page = Path("page.html").read_text(encoding="utf-8").partition('id="surgeon-report">')[2].partition("</script>")[0]
    assert json.loads(Path("report.json").read_text(encoding="utf-8")) == json.loads(printed.stdout)
    assert plain(page) == plain(printed.stdout)


@pytest.mark.parametrize("old", ['{"source": "in.onnx",', '{\n "original": "a",', '{"schema": "surgeon.report/1",'])
def test_a_report_of_an_older_version_is_replaced(old: str) -> None:
    """Another file is not."""
    Path("report.json").write_text(f"{old} and so on")
    assert run("compare", "in.onnx", "in.onnx", "--report", "report.json").exit_code == 0
    validated(Path("report.json").read_text(encoding="utf-8"), 0)
    Path("report.json").write_text('{"schema": "https://json-schema.org"}')
    assert run("compare", "in.onnx", "in.onnx", "--report", "report.json").exit_code == 2


def test_every_kind_is_documented() -> None:
    """Those that have a class, and those that commands print."""
    for module in HOMES:
        importlib.import_module(f"surgeon.display.content.{module}")
    own = {"rules", "tail", "draw", "view", "new", "learn", "record"}
    assert {builder.kind for builder in BUILDERS.values()} | own == set(KINDS)
    reference = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    named = {name for _, keys in KINDS.values() for name in re.findall(r"\bof `([A-Z]\w+)`|and of `([A-Z]\w+)`", keys)}
    for name in {word for words in named for word in words if word}:
        assert re.search(rf"^::: surgeon\.[\w.]+\.{name}$", reference, re.MULTILINE), name


def test_the_text_of_json_has_a_line_for_each_site() -> None:
    """So that tools find and compare them by line."""
    run("rewrite", "in.onnx", "out.onnx", "--rules", "gelu", "--report", "report.json")
    lines = Path("report.json").read_text(encoding="utf-8").splitlines()
    assert sum('"root": ' in line for line in lines) == 2


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ("No rule named 'gleu'. Did you mean 'gelu'? For a file, give its path: ./gleu.py",
         ("No rule named 'gleu'.", "Did you mean 'gelu'? For a file, give its path: ./gleu.py")),
        ("File not found: nope.onnx", ("File not found: nope.onnx", "")),
        ("v1.2.Beta of a.onnx has a cycle; remove it", ("v1.2.Beta of a.onnx has a cycle", "remove it")),
        ("A short sentence", ("A short sentence", "")),
    ],
)  # fmt: skip
def test_the_remedy_is_what_follows_the_first_sentence(message: str, parts: tuple[str, str]) -> None:
    error = SurgeonError(message)
    assert (error.what, error.next) == parts
