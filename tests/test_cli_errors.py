"""The command line when things go wrong: one sentence on stderr, an exit code, and no litter."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import onnx
import pytest

import surgeon
from surgeon.testing import parse
from tests.command_line import files_in, gelus, one_sentence, process, result_in, rule_file, run, with_data_file

ODD = """
from surgeon import Graph, Tensor, rule


def exact(g: Graph, x: Tensor) -> Tensor:
    return g.mul(x, 0.5, g.add(g.erf(g.div(x, 2 ** 0.5)), 1.0))


@rule(patterns=[exact])
def infinite(g: Graph, x: Tensor) -> Tensor:
    return g.div(g.abs(x), g.sub(x, x))


@rule(patterns=[exact])
def not_a_number(g: Graph, x: Tensor) -> Tensor:
    return g.sqrt(g.sub(-1.0, g.abs(x)))
"""


def _truncated(folder: Path) -> Path:
    path = folder / "cut.onnx"
    path.write_bytes(gelus(folder, name="whole.onnx").read_bytes()[:-40])
    return path


def _written(name: str, data: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(data)
        return path

    return make


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_truncated, "truncated"),
        (_written("a.png", b"\x89PNG\r\n\x1a\n" + bytes(64)), "PNG picture"),
        (_written("a.onnx", b"hello, this is text\n"), "text file"),
        (_written("a.onnx", b""), "is empty"),
        (lambda folder: folder / "missing.onnx", "File not found"),
        (lambda folder: folder, "is a folder"),
    ],
)
def test_bad_input_gets_one_sentence(tmp_path: Path, make: Callable[[Path], Path], words: str) -> None:
    """Every command that reads a model refuses what is none, and writes nothing."""
    path, out = make(tmp_path), tmp_path / "out.onnx"
    for command in (("rewrite", path, out, "-r", "gelu"), ("inspect", path), ("upgrade", path, out, "--opset", 20)):
        assert words in one_sentence(run(*command), 2)
    assert not out.exists()


@pytest.mark.parametrize("name", [b"l0d", b"/l0d/Div", b"Erf", b"sqrt2", b"\x0a\x01x"])
def test_names_that_are_not_utf8_get_one_sentence_or_do_not_matter(tmp_path: Path, name: bytes) -> None:
    """Tensors, nodes, ops, initializers, inputs: never a traceback."""
    path, out = tmp_path / "bad.onnx", tmp_path / "out.onnx"
    path.write_bytes(gelus(tmp_path).read_bytes().replace(name, name[:-1] + b"\xff"))
    failed = 0
    for command in (
        ("rewrite", path, out, "-r", "gelu", "--diff"),
        ("rewrite", path, out, "-r", "gelu", "--dry-run", "--report", tmp_path / "report.json"),
        ("inspect", path),
        ("inspect", path, "--json"),
        ("upgrade", path, out, "--opset", 20),
    ):
        result = run(*command)
        if result.exit_code:
            failed += 1
            assert "has a name that is not UTF-8" in one_sentence(result, 2)
    assert failed


@pytest.mark.parametrize("place", ["no/such/folder/out.onnx", "in.onnx/out.onnx"])
def test_a_place_that_cannot_be_written_gets_one_sentence(tmp_path: Path, place: str) -> None:
    """A folder that is not there, and a file in the place of a folder."""
    one_sentence(run("rewrite", gelus(tmp_path), tmp_path / place, "-r", "gelu"), 2)
    assert [item.name for item in tmp_path.iterdir()] == ["in.onnx"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is a file system that nobody can write")
def test_a_read_only_file_system_gets_one_sentence(tmp_path: Path) -> None:
    """Permission bits do not bind root; /proc does."""
    assert "cannot be written" in one_sentence(run("rewrite", gelus(tmp_path), "/proc/out.onnx", "-r", "gelu"), 2)


def test_an_unknown_rule_lists_the_nearest(tmp_path: Path) -> None:
    """A typing error gets a suggestion."""
    message = one_sentence(run("rewrite", gelus(tmp_path), tmp_path / "o.onnx", "--rules", "gellu"), 2)
    assert "Did you mean" in message
    assert "gelu" in message


@pytest.mark.parametrize(
    "arguments",
    [
        ("rewrite",),
        ("rewrite", "a", "b"),
        ("rewrite", "a", "b", "-r", "gelu", "--target", "mars"),
        ("frobnicate",),
        ("rewrite", "a", "b", "-r", "gelu", "--expect", "gelu"),
        ("upgrade", "a", "b", "--opset", "x"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...]) -> None:
    """Missing and unknown arguments."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("rewrite a b --target tensort", "Did you mean 'tensorrt'"),
        ("rewrite a b --target trt", "Did you mean 'tensorrt'?"),
        ("convert a b --to fp16", "Did you mean 'float16'?"),
        (
            "convert a b --to float16 --target tensorrt",
            "'--target'. Choose the runtime with --ep, for example --ep ten",
        ),
        ("rewrite a b --check sitess", "Did you mean 'sites'?"),
        ("edit a b --rename x y", "Got unexpected extra argument (y). Write --rename x=y."),
        ("edit --rename x y a b", "Write --rename x=y."),
        ("rewrite a", "Missing argument 'OUT'. Example: surgeon rewrite in.onnx out.onnx"),
        (
            "insert a b --between x --and y",
            "Missing option '--op'. Example: surgeon insert in.onnx out.onnx --between x",
        ),
        ("prepend a b --mean 1", "Missing argument 'image'. Example: surgeon prepend in.onnx out.onnx image"),
        ("record a.toml", "Example: surgeon record deploy.toml rewrite in.onnx out.onnx --rules gelu"),
        ("new gelu", "No such command 'gelu'. Did you mean surgeon new rule gelu?"),
    ],
)
def test_wrong_usage_is_explained(arguments: str, words: str) -> None:
    """Values that are almost right, arguments without their sign, missing arguments."""
    result = run(*arguments.split())
    assert result.exit_code == 2
    assert words in result.stderr.splitlines()[-1]


def test_a_dangling_tensor_gets_one_sentence(tmp_path: Path) -> None:
    """The node and the tensor are named."""
    path = gelus(tmp_path)
    model = onnx.load(path)
    del model.graph.node[0]
    onnx.save(model, path)
    message = one_sentence(run("rewrite", path, tmp_path / "o.onnx", "-r", "gelu"), 2)
    assert "/l0e/Erf" in message
    assert "l0d" in message


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "Interrupted."),
        (MemoryError(), 2, "Error: Out of memory"),
        (OSError(28, "No space left on device", "out.onnx"), 2, "Error: out.onnx: No space left on device"),
    ],
)
def test_what_slips_through_still_ends_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, words: str
) -> None:
    """An interrupt, no memory, a full disk."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(import_module("surgeon.pipeline.rewriting.rewrite"), "rewrite", fail)
    result = run("rewrite", gelus(tmp_path), tmp_path / "o.onnx", "-r", "gelu")
    assert result.exit_code == code
    assert result.stderr.startswith(words)
    assert len(result.stderr.splitlines()) == 1


def _process(*arguments: object, **settings: object) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "surgeon", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, **settings)


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    """The reader of a pipe is gone before anything is printed."""
    read, write = os.pipe()
    os.close(read)
    process = _process("rules", "gelu", stdout=write)
    os.close(write)
    assert process.communicate()[1] == b""
    assert process.returncode == 141


INTERRUPTING = """
import os, signal
from surgeon import Graph, Tensor, rule

def root(g: Graph, x: Tensor) -> Tensor:
    return g.erf(x)

@rule(patterns=[root])
def interrupting(g: Graph, x: Tensor) -> Tensor:
    os.kill(os.getpid(), signal.SIGINT)
    return g.tanh(x)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_the_caller_closed_do_not_matter(tmp_path: Path, closed: str) -> None:
    """Nothing of what would have gone there lands in a file, and the exit code is that of the run."""
    source, out = gelus(tmp_path), tmp_path / "out.onnx"
    for arguments, code in ((("rewrite", source, out, "-r", "gelu"), 0), (("rewrite", source, out, "-r", "nosuch"), 2)):
        command = [sys.executable, "-m", "surgeon", *map(str, arguments)]
        assert subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *command]).returncode == code
    onnx.load(out)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rewrite", "IN", "OUT", "-r", "gelu", "--proof-time", "1e10"), "Invalid proof time 1e+10 s"),
        (("rewrite", "IN", "OUT", "-r", "gelu", "--check", "model", "--run-time", "1e10"), "run time of 1e+10 s"),
        (("edit", "IN", "OUT", "--dim", "n=9223372036854775808"), "from 0 to 2^63 - 1"),
        (("rewrite", "IN", "IN/out.onnx", "-r", "gelu"), "is a file, not a folder"),
        (("split", "IN", "IN/parts", "--at", "l0d"), "is a file, not a folder"),
        (("rewrite", "IN", "OUT", "-r", "./folder.py"), "folder.py is a folder. Give a rule file in it"),
        (("run", "r.toml", "*.onnx", "OUT"), "is a pattern. For many models: --over PATTERN --to FOLDER"),
        (("learn", "torch.nn:GELU", "--shape", "x"), "Invalid shape 'x'"),
        (("learn", "torch.nn:GELU", "--shape", "2,,3"), "Invalid shape '2,,3'"),
    ],
)
def test_what_cannot_be_meant_gets_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.py").mkdir()
    source = str(gelus(tmp_path))
    reported = (argument.replace("IN", source).replace("OUT", "out.onnx") for argument in arguments)
    assert words in one_sentence(run(*reported), 2)


def test_an_interrupt_leaves_no_litter(tmp_path: Path) -> None:
    """SIGINT while sites are rewritten: exit 130, one word, nothing new in the folder."""
    rules = tmp_path / "rules.py"
    rules.write_text(INTERRUPTING)
    process = _process(
        *("rewrite", gelus(tmp_path), tmp_path / "out.onnx", "-r", rules),
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # who runs this in the background ignores it
    )
    output, error = process.communicate()
    assert process.returncode == 130
    assert (output, error) == (b"", b"Interrupted.\n")
    assert sorted(item.name for item in tmp_path.glob("*.*")) == ["in.onnx", "rules.py"]


WAITING = """
import os, time
from surgeon import Graph, Tensor, rule

def root(g: Graph, x: Tensor) -> Tensor:
    return g.erf(x)

@rule(patterns=[root])
def waiting(g: Graph, x: Tensor) -> Tensor:
    return g.tanh(x)

def wait(self, *rest):
    os.kill(os.getpid(), int(os.environ["NUMBER"]))
    time.sleep(float(os.environ["SECONDS"]))

from surgeon.file.io.atomic_file import AtomicFile
AtomicFile.commit = wait
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("ignored", [False, True])
def test_a_signal_that_ends_the_process_leaves_no_litter(tmp_path: Path, number: signal.Signals, ignored: bool) -> None:
    """With the temporary file there and the data in place: all goes back; a signal that nohup ignores stays ignored."""
    source = with_data_file(tmp_path / "source")
    out = tmp_path / "out"
    out.mkdir()
    rules = tmp_path / "rules.py"
    rules.write_text(WAITING)
    process = _process(
        *("rewrite", source, out / "o.onnx", "-r", rules, "--check", "none", "-q"),
        stdout=subprocess.PIPE,
        env={**os.environ, "NUMBER": str(int(number)), "SECONDS": "0" if ignored else "30"},
        preexec_fn=lambda: signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL),
    )
    output, error = process.communicate()
    if ignored:
        assert process.returncode == 0
    else:
        assert (process.returncode, output, error.decode()) == (128 + number, b"", f"Ended by {number.name}.\n")
        assert list(out.iterdir()) == []
    assert (source.parent / "w.data").read_bytes() == bytes(8)


def test_an_error_in_a_rule_s_own_code_names_rule_line_and_node(tmp_path: Path) -> None:
    """A rule that divides by zero while it replaces ends the run with one sentence."""
    rules, out = rule_file(tmp_path), tmp_path / "out.onnx"
    message = one_sentence(run("rewrite", gelus(tmp_path), out, "--rules", f"{rules}:raising"), 2)
    assert "Rule raising raised an error at node" in message
    assert "ZeroDivisionError" in message
    assert "(my_rules.py:" in message
    assert not out.exists()


MISTAKEN = """
from surgeon import Graph, Tensor, rule
from surgeon.searches import Search


def exact(g: Graph, x: Tensor) -> Tensor:
    return g.mul(x, 0.5, g.add(g.erf(g.div(x, 2 ** 0.5)), 1.0))


def sites(index, scope):
    return index.live_nods


@rule(patterns=[exact])
def undefined(g: Graph, x: Tensor, bta: float = 1.0) -> Tensor:
    return g.op("mine::Gelu", x, beta=beta)


@rule(patterns=[exact])
def asserting(g: Graph, x: Tensor) -> Tensor:
    assert not x.name, "no name"
    return g.op("mine::Gelu", x)


@rule(patterns=[exact])
def misspelt(g: Graph, x: Tensor) -> Tensor:
    return g.op("mine::Gelu", x, size=x.shpe)


@rule(search=Search(sites, "there is none"), target="any")
def searching(g: Graph, match) -> Tensor:
    return match.x
"""


@pytest.mark.parametrize("command", ["rewrite", "explain"])
@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("undefined", "NameError: name 'beta' is not defined. Did you mean 'bta'? (mistaken.py:16)"),
        ("asserting", "AssertionError: no name (mistaken.py:21)"),
        ("misspelt", "has no attribute 'shpe'. Did you mean 'shape'? (mistaken.py:27)"),
        ("searching", "Search sites (mistaken.py:10) raised an error: AttributeError: 'Index' object has no attribute"),
    ],
)
def test_any_exception_of_a_rule_s_function_is_an_error_of_the_rule(
    tmp_path: Path, command: str, rule: str, message: str
) -> None:
    """A wrong name, a failed assertion, an attribute that does not exist, and a search that raises."""
    file = tmp_path / "mistaken.py"
    file.write_text(MISTAKEN)
    outputs = [tmp_path / "out.onnx"] if command == "rewrite" else []
    result = run(command, gelus(tmp_path), *outputs, "--rules", f"{file}:{rule}")
    assert message in one_sentence(result, 2)


def test_the_manual_of_a_rule_names_a_mistake_in_its_replacement(tmp_path: Path) -> None:
    """`surgeon rules FILE` traces replacements, as a rewrite does, but without a model."""
    file = tmp_path / "mistaken.py"
    file.write_text(MISTAKEN)
    message = one_sentence(run("rules", f"{file}:undefined"), 2)
    assert message.startswith("Error: Rule undefined raised an error in its replacement: NameError")
    assert "raised an error" not in run("rules", f"{file}:asserting").output


def test_an_error_in_a_rule_s_reference_names_rule_line_and_node() -> None:
    """What the op means that a rule writes is asked for when its sites are proved."""

    @surgeon.rule(patterns=[lambda g, x: g.relu(g.neg(x))], target="any")
    def joined(g: surgeon.Graph, x: surgeon.Tensor) -> Any:
        """Write an op of one's own."""
        return g.op("mine::ReluOfNeg", x)

    @joined.on("decomposed")
    def _(g: surgeon.Graph, x: surgeon.Tensor) -> Any:
        return g.mul(x, 1 / (x.rank - 1))

    head = '<ir_version: 10, opset_import: ["" : 18, "mine" : 1]>'
    model = parse(f"{head} g (float[n] x) => (float[n] y) {{ t = Neg(x) y = Relu(t) }}")
    message = r"in its reference, at the node that produces 'y': ZeroDivisionError: .* \(test_cli_errors.py:\d+\)"
    with pytest.raises(surgeon.SurgeonError, match=f"Rule joined raised an error {message}"):
        surgeon.rewrite(model, joined)


def test_a_report_is_strict_json_whatever_the_numbers_are(tmp_path: Path) -> None:
    """Infinite and NaN errors, of sites and of whole models."""
    path, report = gelus(tmp_path), tmp_path / "report.json"
    (tmp_path / "odd.py").write_text(ODD)
    for name in ("infinite", "not_a_number"):
        for check in ("sites", "model"):
            options = ("--check", check, "--report", report)
            result = run("rewrite", path, tmp_path / "o.onnx", "-r", f"{tmp_path / 'odd.py'}:{name}", *options)
            assert result.exit_code == 1, result.output
            found = result_in(report.read_text())
            assert found["outcome"] == "failed"


def test_a_report_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes wrong while it is written leaves the older one, and nothing beside it."""
    path, report = gelus(tmp_path), tmp_path / "report.json"
    assert run("rewrite", path, tmp_path / "o.onnx", "-r", "gelu", "--report", report).exit_code == 0
    older, there = report.read_bytes(), files_in(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("surgeon.file.io.atomic_file.write_all", full)
    result = run("rewrite", path, tmp_path / "o.onnx", "-r", "gelu", "--report", report, "--dry-run", "-q")
    assert one_sentence(result, 2) == f"Error: Cannot write the report {report}: No space left on device"
    assert report.read_bytes() == older
    assert files_in(tmp_path) == there


def test_a_quiet_run_that_keeps_going_does_not_hide_what_failed(tmp_path: Path) -> None:
    """Exit 0, nothing on stdout, and one line on stderr."""
    arguments = ("rewrite", gelus(tmp_path), tmp_path / "o.onnx", "-r", f"{rule_file(tmp_path)}:wrong")
    result = run(*arguments, "--keep-going", "--quiet")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("FAILED: 2 of 2 sites were rolled back (wrong at /h1/Mul: ")
    assert result.stderr.count("\n") == 1


def test_a_report_goes_into_a_pipe_and_through_a_link(tmp_path: Path) -> None:
    """/dev/stdout is the pipe to another program; a link stays one."""
    path, out = gelus(tmp_path), tmp_path / "o.onnx"
    done = process("-m", "surgeon", "rewrite", path, out, "-r", "gelu", "--quiet", "--report", "/dev/stdout")
    assert (done.returncode, done.stderr) == (0, "")
    assert result_in(done.stdout)["outcome"] == "proved"
    link, report = tmp_path / "link.json", tmp_path / "report.json"
    link.symlink_to(report)
    assert run("rewrite", path, out, "-r", "gelu", "--report", link).exit_code == 0
    assert link.is_symlink()
    assert result_in(report.read_text())["written"] is True


def test_a_defect_is_one_sentence_and_a_code_of_its_own(tmp_path, monkeypatch):
    """The last resort: nobody is left alone with a traceback, which is there for who asks."""

    def broken(*_: object) -> None:
        raise ValueError("not even\nwrong \x1b[2J")

    monkeypatch.setattr("surgeon.pipeline.rewriting.rule_set.open_index", broken)
    source = gelus(tmp_path, count=1)
    found = run("rewrite", source, tmp_path / "out.onnx", "--rules", "gelu")
    assert found.exit_code == 4
    assert found.stderr.count("\n") == 1
    assert "Internal error in surgeon: ValueError: not even (in " in found.stderr
    assert f"surgeon --traceback rewrite {source}" in found.stderr
    assert not (tmp_path / "out.onnx").exists()
    shown = run("--traceback", "rewrite", source, tmp_path / "out.onnx", "--rules", "gelu")
    assert isinstance(shown.exception, ValueError)
