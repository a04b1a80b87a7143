"""The server of `surgeon mcp`, asked by the official client over standard input and output."""

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("mcp.server.mcpserver", reason='no client and server: pip install "mcp>=2"')

from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters, stdio_client

import surgeon
from surgeon.integrations import assistant_server
from surgeon.integrations.short_answers import LIMIT, Answers
from tests.command_line import ROOT, run, surroundings

MODEL = "tiny_distilbert.onnx"
SHIPPED = ROOT / "notebooks" / "models" / MODEL
NOTE = re.compile(r"… [\d,]+ of [\d,]+ (\w+) more: details\(answer=(\d+), at='(.*)', first=(\d+)\)$")
RULE = '''
import os
import pathlib
import surgeon

print("a line on standard output")
pathlib.Path("it_ran").touch()

@surgeon.rule(patterns=[lambda g, x: g.erf(x)], target="any")
def my_erf(g: surgeon.Graph, x: surgeon.Tensor) -> surgeon.Tensor:
    """Write Erf as a node of another domain."""
    return g.op("acme::Erf", x)
'''
Ask = Callable[..., str]


@contextmanager
def session(folder: Path, *options: str) -> Iterator[Client]:
    """A client, and a portal to the thread in which it runs, as its attribute `portal`."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "surgeon", "mcp", *options], env=surroundings(), cwd=folder
    )
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(stdio_client(server))) as client:
        client.portal = portal
        yield client


def asking(client: Client) -> Ask:
    """Calls a tool; returns the text of its answer, or raises AssertionError with that of its error."""

    def ask(tool: str, **arguments: Any) -> str:
        found = client.portal.call(client.call_tool, tool, arguments)
        (content,) = found.content
        assert found.structured_content is None  # else the answer is sent twice
        assert len(content.text.encode()) <= LIMIT
        if found.is_error:
            raise AssertionError(content.text)
        return content.text

    return ask


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a server, next to files that it must not reach."""
    home = tmp_path_factory.mktemp("assistant")
    inner = home / "working"
    inner.mkdir()
    shutil.copy(SHIPPED, inner)
    shutil.copy(SHIPPED, home / "outside.onnx")
    (home / "outside.py").write_text(RULE)
    (inner / "my_rules.py").write_text(RULE)
    (inner / "link.onnx").symlink_to(home / "outside.onnx")
    (inner / "link.py").symlink_to(home / "outside.py")
    (inner / "out").symlink_to(home)
    (inner / "same.onnx").symlink_to(inner / MODEL)
    for name, location in (("up", "../w.data"), ("absolute", str(home / "w.data")), ("linked", "linked.data")):
        _with_data(inner / f"{name}.onnx", location)
    (home / "w.data").write_bytes(bytes(4096))
    (inner / "linked.data").symlink_to(home / "w.data")
    (inner / "sub").mkdir()
    (inner / "sub" / "weights").symlink_to(home)
    (inner / "weights").mkdir()
    (inner / "weights" / "new.data").write_bytes(b"\1" * 4096)
    (inner / "sub" / "one.data").symlink_to(home / "w.data")
    (inner / "one.data").write_bytes(b"\1" * 4096)
    _with_data(inner / "folders.onnx", "weights/new.data")
    _with_data(inner / "one.onnx", "one.data")
    return inner


def _with_data(path: Path, location: str) -> None:
    """A model with the weights of an Add in a data file."""
    weights = onnx.TensorProto(name="w", data_type=1, dims=[1024], data_location=onnx.TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value=location)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[1024] x) => (float[1024] y) { i = Identity(x) y = Add(i, w) }'
    )
    model.graph.initializer.append(weights)
    path.write_bytes(model.SerializeToString())


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    """A client of a server for that folder, which allows no rule files."""
    with session(folder) as found:
        yield found


@pytest.fixture
def ask(client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.chdir(folder)
    return asking(client)


def test_the_tools_have_the_manuals_of_their_functions(client: Client) -> None:
    tools = {tool.name: tool for tool in client.portal.call(client.list_tools).tools}
    assert list(tools) == ["inspect", "explain", "check", "rewrite", "diff", "capture", "rules", "details"]
    assert {name for name, tool in tools.items() if not tool.annotations.read_only_hint} == {"rewrite", "capture"}
    for name in assistant_server.PUBLIC:
        first = (getattr(surgeon, name).__doc__ or "").partition("\n")[0]
        assert tools[name].description.startswith(first)
    words = [part["description"] for tool in tools.values() for part in tool.input_schema["properties"].values()]
    assert all(words)
    assert not [text for text in words if "In Python" in text or "gs.Graph" in text]
    assert tools["rewrite"].input_schema["required"] == ["model"]


CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("inspect", {"model": MODEL}, f"inspect {MODEL}"),
    ("explain", {"model": MODEL, "rules": "gelu_tanh"}, f"explain {MODEL} --rules gelu_tanh"),
    ("check", {"model": MODEL}, f"check {MODEL}"),
    ("rewrite", {"model": MODEL}, f"rewrite {MODEL} --dry-run ignored.onnx"),
    ("diff", {"first": MODEL, "second": MODEL}, f"diff {MODEL} {MODEL}"),
    ("capture", {"model": MODEL, "froms": ["linear_4"], "tos": ["gelu"], "name": "act"}, ""),
    ("rules", {}, "rules"),
    ("rules", {"name": "gelu"}, "rules gelu"),
    ("rules", {"name": "nms"}, "rules nms"),
    ("rules", {"name": "cleanup"}, "rules cleanup"),
]


def whole(ask: Ask, answer: int, at: str = "") -> Any:
    """A part of an answer, from as many calls of `details` as its notes ask for."""
    found: list[Any] = []
    first: int | None = 0
    while first is not None:
        value = json.loads(ask("details", answer=answer, at=at, first=first))
        if isinstance(value, str):
            note = NOTE.search(value)
            found.append(value[: note.start()] if note else value)
        elif isinstance(value, dict):
            note = NOTE.fullmatch(value.pop("…", ""))
            found.append({key: entry(ask, answer, item, f"{at}/{_escaped(key)}") for key, item in value.items()})
        elif isinstance(value, list):
            note = NOTE.fullmatch(str(value[-1])) if value else None
            entries = value[:-1] if note else value
            found.append([entry(ask, answer, item, f"{at}/{first + n}") for n, item in enumerate(entries)])
        else:
            return value
        assert note is None or note[3] == at
        assert note is None or int(note[4]) > first, "or nothing is new"
        first = None if note is None else int(note[4])
    pieces = iter(found)
    result = next(pieces)
    for piece in pieces:
        result = result | piece if isinstance(result, dict) else result + piece
    return result


def entry(ask: Ask, answer: int, value: Any, at: str) -> Any:
    return whole(ask, answer, at) if "details(answer=" in json.dumps(value) else value


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


@pytest.mark.parametrize(("tool", "arguments", "line"), CALLS, ids=lambda item: item if isinstance(item, str) else "")
def test_a_tool_answers_with_what_the_command_prints(ask: Ask, tool: str, arguments: dict[str, Any], line: str) -> None:
    """At most 4 kB at once, and all of it by its notes."""
    answer = json.loads(ask(tool, **arguments))
    assert answer["summary"]
    assert "details: -v" not in answer["summary"], "advice on the command line"
    found = whole(ask, answer["answer"])
    assert {**found, "command": 0, "exit_code": 0} == found | {"command": 0, "exit_code": 0}
    if line:
        expected = json.loads(run(*line.split(), "--json").stdout)["results"]
        assert _timeless(found["results"]) == _timeless(expected)
    else:
        assert found["results"][0]["result"]["text"] == surgeon.capture(MODEL, ["linear_4"], ["gelu"], "act").text


def _timeless(results: list[Any]) -> Any:
    """Results without times and the name of an output that was not written."""
    drop = ("seconds", "output")
    return json.loads(
        json.dumps(results), object_hook=lambda item: {key: value for key, value in item.items() if key not in drop}
    )


def test_only_a_rewrite_with_an_output_writes(ask: Ask, folder: Path) -> None:
    before = set(folder.iterdir())
    assert "nothing was written" in json.loads(ask("rewrite", model=MODEL, rules="gelu"))["summary"]
    assert set(folder.iterdir()) == before
    answer = json.loads(ask("rewrite", model="same.onnx", rules="gelu", output="fused.onnx", expect={"gelu": 4}))
    assert "PROVED   4 of 4 sites" in answer["summary"]
    assert set(folder.iterdir()) == {*before, folder / "fused.onnx"}
    assert "com.microsoft::Gelu at node_gelu" in json.loads(ask("diff", first=MODEL, second="fused.onnx"))["summary"]
    (folder / "fused.onnx").unlink()


def test_a_captured_rule_is_written_once(ask: Ask, folder: Path) -> None:
    given = {"model": MODEL, "froms": ["linear_4"], "tos": ["gelu"], "name": "act", "output": "act.py"}
    ask("capture", **given)
    assert "def act(" in (folder / "act.py").read_text()
    with pytest.raises(AssertionError, match="already exists"):
        ask("capture", **given)
    (folder / "act.py").unlink()


ERRORS: list[tuple[str, dict[str, Any], str]] = [
    ("inspect", {"model": "nowhere.onnx"}, "nowhere.onnx (did you mean"),
    ("inspect", {"model": "my_rules.py"}, "not an ONNX model"),
    ("check", {"model": MODEL, "target": "nothing"}, "No target named 'nothing'"),
    ("rewrite", {"model": MODEL, "rules": "gelo"}, "No rule named 'gelo'. Did you mean 'gelu'"),
    ("rewrite", {"model": MODEL, "rules": "gelu", "expect": {"gelu": 5}}, "4 times, but 5 were expected"),
    ("rewrite", {"model": MODEL, "rules": "gelu", "output": "no/such/folder.onnx"}, "folder"),
    ("rewrite", {"model": 3}, "Input should be a valid string"),
    ("capture", {"model": MODEL, "froms": ["nothing"], "name": "act"}, "nothing"),
    ("rules", {"name": "nothing_like_it"}, "No rule named 'nothing_like_it'"),
    ("details", {"answer": 999}, "Answer 999 is not known"),
    ("details", {"answer": 1, "at": "/results/9"}, "Answer 1 has nothing at /results/9"),
    ("details", {"answer": 1, "at": "/schema/x"}, "Answer 1 has nothing at /schema/x"),
]


@pytest.mark.parametrize(("tool", "arguments", "said"), ERRORS, ids=lambda item: item if isinstance(item, str) else "")
def test_an_error_arrives_with_its_sentence(ask: Ask, tool: str, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(AssertionError, match=f"^Error executing tool {tool}: (.*\\n)*.*{re.escape(said)}"):
        ask(tool, **arguments)


def test_an_error_with_a_report_has_both(ask: Ask) -> None:
    with pytest.raises(AssertionError) as raised:
        ask("rewrite", model=MODEL, rules="gelu", expect={"gelu": 5})
    sentence, _, rest = str(raised.value).partition("\n")
    answer = json.loads(rest)
    assert answer["error"]["what"] in sentence
    assert answer["results"][0]["result"]["counts"]["gelu"] == 4


def test_the_text_of_any_error_arrives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The protocol hides that of errors that a tool does not raise on purpose."""

    def broken(_: object) -> None:
        raise ZeroDivisionError("no such thing")

    monkeypatch.setattr("surgeon.targets.inspection.model_summary.inspect", broken)
    shutil.copy(SHIPPED, tmp_path)
    server = assistant_server.assistant_server(str(tmp_path))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(server)) as client:
        found = portal.call(client.call_tool, "inspect", {"model": MODEL})
    assert found.is_error
    assert found.content[0].text == "Error executing tool inspect: ZeroDivisionError: no such thing"


READING: list[tuple[str, str, dict[str, Any]]] = [
    ("inspect", "model", {}),
    ("explain", "model", {"rules": "gelu"}),
    ("check", "model", {}),
    ("rewrite", "model", {"rules": "gelu"}),
    ("diff", "first", {"second": MODEL}),
    ("diff", "second", {"first": MODEL}),
    ("capture", "model", {"froms": ["linear_4"], "name": "act"}),
]
WRITING: list[tuple[str, dict[str, Any]]] = [
    ("rewrite", {"model": MODEL, "rules": "gelu"}),
    ("capture", {"model": MODEL, "froms": ["linear_4"], "tos": ["gelu"], "name": "act"}),
]
READ = ("../outside.onnx", "link.onnx", "out/outside.onnx", "/etc/passwd", "/dev/stdin", "x/../../outside.onnx")
WRITTEN = ("../new.onnx", "out/new.onnx", "link.onnx", "/tmp/surgeon_new.onnx")
OUTSIDE = "is outside of the working folder"
DATA = {
    "up": "is outside the model's folder",
    "absolute": "is outside the model's folder",
    "linked": "is a link out of the model's folder",
}
ESCAPES: list[tuple[str, dict[str, Any], str]] = [
    *((tool, {key: path, **more}, OUTSIDE) for path in READ for tool, key, more in READING),
    *((tool, {"output": path, **more}, OUTSIDE) for path in WRITTEN for tool, more in WRITING),
    *(("rewrite", {"model": f"{name}.onnx", "rules": "cleanup", "output": "new.onnx"}, DATA[name]) for name in DATA),
    ("rewrite", {"model": "folders.onnx", "rules": "cleanup", "output": "sub/new.onnx"}, DATA["linked"]),
    ("rewrite", {"model": "one.onnx", "rules": "cleanup", "output": "sub/new.onnx"}, DATA["linked"]),
]


@pytest.mark.parametrize(("tool", "arguments", "said"), ESCAPES)
def test_no_path_leads_out_of_the_folder(
    ask: Ask, folder: Path, tool: str, arguments: dict[str, Any], said: str
) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.parent.rglob("*")}
    with pytest.raises(AssertionError, match=f"^Error executing tool {tool}: .*{said}"):
        ask(tool, **arguments)
    assert {path: path.stat().st_mtime_ns for path in folder.parent.rglob("*")} == before


@pytest.mark.parametrize("name", DATA)
def test_a_check_reads_no_data_file_outside(ask: Ask, name: str) -> None:
    """It may list the problem instead of raising it; the runtime must not load the model."""
    try:
        answer = ask("check", model=f"{name}.onnx")
    except AssertionError as refused:
        answer = str(refused)
    assert "folder" in answer
    assert '"findings": []' not in answer


def test_a_data_file_in_the_folder_is_copied(ask: Ask, folder: Path) -> None:
    """So that the test above does not pass because of something else."""
    (folder / "copy").mkdir()
    ask("rewrite", model="folders.onnx", rules="cleanup", output="copy/new.onnx")
    assert (folder / "copy" / "weights" / "new.data").stat().st_size == 4096
    shutil.rmtree(folder / "copy")


@pytest.mark.parametrize("rules", ["./my_rules.py", "my_rules.py:my_erf", "gelu,-./my_rules.py", " my_rules.py"])
@pytest.mark.parametrize("tool", ["rewrite", "explain", "rules"])
def test_rule_files_do_not_run(ask: Ask, folder: Path, tool: str, rules: str) -> None:
    with pytest.raises(AssertionError, match=r"my_rules\.py.* is code. To allow rule files: surgeon mcp --allow-rules"):
        ask(tool, **({"name": rules} if tool == "rules" else {"model": MODEL, "rules": rules}))
    assert not (folder / "it_ran").exists()


@pytest.mark.parametrize("rules", ["json.tool", "antigravity.x:y", "-this.that"])
def test_modules_are_not_imported(ask: Ask, rules: str) -> None:
    with pytest.raises(AssertionError, match="is a module, which is code"):
        ask("rewrite", model=MODEL, rules=rules)


def test_rule_files_of_the_folder_run_if_they_are_allowed(folder: Path) -> None:
    """Output that they print does not reach the protocol."""
    with session(folder.parent, "working", "--allow-rules") as client:
        ask = asking(client)
        assert "my_erf" in ask("rules", name="./my_rules.py")
        assert "my_erf 4" in ask("rewrite", model=MODEL, rules="./my_rules.py:my_erf")
        for path in ("../outside.py", "link.py", "out/outside.py", "/etc/x.py", "gelu,-../outside.py"):
            with pytest.raises(AssertionError, match="is outside of the working folder"):
                ask("rewrite", model=MODEL, rules=path)
        with pytest.raises(AssertionError, match="is a module, which is code"):
            ask("rewrite", model=MODEL, rules="os.path")
    assert (folder / "it_ran").exists()
    (folder / "it_ran").unlink()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3000),
    lambda inner: st.lists(inner, max_size=60) | st.dictionaries(st.text(max_size=300), inner, max_size=40),
    max_leaves=60,
)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.text(max_size=30), VALUES, max_size=12))
def test_any_answer_is_short_and_complete(value: dict[str, Any]) -> None:
    answers = Answers()

    def ask(_: str, answer: int, at: str, first: int) -> str:
        text = answers.part(answer, at, first)
        assert len(text.encode()) <= LIMIT
        return text

    value.pop("…", None)
    assert len(answers.add(value).encode()) <= LIMIT
    assert whole(ask, 1) == {"answer": 1, **value}


def test_a_name_that_is_longer_than_an_answer_is_cut() -> None:
    answers = Answers()
    assert "… 1 of 2 keys more" in answers.add({"x" * 2 * LIMIT: "y" * LIMIT})
    assert len(answers.part(1, first=1).encode()) == LIMIT


def test_old_answers_are_forgotten() -> None:
    answers = Answers()
    for _ in range(100):
        answers.add({})
    assert answers.part(100) == '{"answer": 100}'
    with pytest.raises(surgeon.UsageError, match="Answer 1 is not known"):
        answers.part(1)


@pytest.mark.parametrize("missing", ["mcp", "mcp.server.mcpserver"])
def test_without_the_package_the_command_names_it(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """Or with an old one, which lacks its main class."""
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "mcp.server", raising=False)
    monkeypatch.delitem(sys.modules, "surgeon.integrations.assistant_server")
    done = run("mcp")
    assert done.exit_code == 2
    assert done.stderr.endswith('needs mcp 2 or newer. Install it: pip install "onnx-surgeon[mcp]"\n')


def test_the_server_ends_with_its_input(tmp_path: Path) -> None:
    done = run("mcp", str(tmp_path / "nowhere"))
    assert (done.exit_code, done.stderr) == (2, f"Error: {tmp_path / 'nowhere'}: No such file or directory\n")
