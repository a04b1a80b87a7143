"""What the tests of the command line share: running it in this process, and small models as files."""

import contextlib
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import onnx
from click.testing import CliRunner, Result

from surgeon.cli.app import main

ROOT = Path(__file__).resolve().parent.parent
EXACT = """
    {i}d = Div({x}, sqrt2)
    {i}e = Erf({i}d)
    {i}a = Add({i}e, one)
    {i}m = Mul({x}, {i}a)
    {y} = Mul({i}m, half)
"""
CONSTANTS = "float sqrt2 = {1.4142135}, float one = {1}, float half = {0.5}"


def runner() -> CliRunner:
    """What runs a command in this process, and keeps stdout and stderr apart: click before 8.2 wants to be told so."""
    has_mix_stderr = "mix_stderr" in inspect.signature(CliRunner).parameters
    return CliRunner(mix_stderr=False) if has_mix_stderr else CliRunner()


def run(*arguments: object) -> Result:
    """Run the program as the shell would."""
    return runner().invoke(main, [str(item) for item in arguments])


def files_in(folder: Path) -> set[str]:
    """All names in a folder."""
    return set(os.listdir(folder))


def surroundings(without: Sequence[str] = (), **variables: str) -> dict[str, str]:
    """The environment of a process with the repository on its path.  without: variables that it has not."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [variables.pop("PYTHONPATH", "")])])
    settings = {name: value for name, value in os.environ.items() if name not in without}
    return {**settings, "PYTHONPATH": paths, **variables}


def process(
    *arguments: object, cwd: Path | None = None, without: Sequence[str] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, with the repository on its path.  without: variables that it has not."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        encoding="utf-8",
        errors="backslashreplace",
        check=False,
        cwd=cwd,
        env=surroundings(without, **variables),
    )


def strict_json(text: str | bytes) -> Any:
    """The value of a JSON text; NaN and Infinity are none."""

    def refused(word: str) -> NoReturn:
        raise ValueError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refused)


def result_in(text: str | bytes) -> Any:
    """The data of the only result of a report, or of what --json prints."""
    (record,) = strict_json(text)["results"]
    return record["result"]


# Runs commands one after the other: a line of words that a system call would bring, as hexadecimal digits, is answered
# by a line of JSON.  What a command prints is encoded as this process's own standard output and errors are.
_COMMANDS = """
import io, json, os, sys
from surgeon.cli.app import main
from surgeon.display.terminal.console import make_printable
real, streams = sys.stdout, [(each.encoding, each.errors) for each in (sys.stdout, sys.stderr)]
for line in sys.stdin:
    words = [os.fsdecode(bytes.fromhex(word)) for word in json.loads(line)]
    files = [io.BytesIO(), io.BytesIO()]
    sys.stdout, sys.stderr = (io.TextIOWrapper(file, *how) for file, how in zip(files, streams))
    make_printable(sys.stdout, sys.stderr)  # as main does for a process
    try:
        code = main(words, prog_name="surgeon")
    except SystemExit as end:
        code = end.code
    for each in (sys.stdout, sys.stderr):
        each.flush()
    printed = [file.getvalue().decode("utf-8", "backslashreplace") for file in files]
    print(json.dumps([code, *printed]), file=real, flush=True)
"""


@contextlib.contextmanager
def commands(
    cwd: Path | None = None, without: Sequence[str] = (), **variables: str
) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Many commands in one process of its own, which starts once: a function of a command's words.

    It returns the exit code, and what the command printed to standard output and errors.
    """
    with subprocess.Popen(
        [sys.executable, "-c", _COMMANDS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="ascii",
        cwd=cwd,
        env=surroundings(without, **variables),
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        requests, replies = running.stdin, running.stdout

        def run_one(*words: object) -> tuple[int, str, str]:
            print(json.dumps([os.fsencode(str(word)).hex() for word in words]), file=requests, flush=True)
            code, output, errors = json.loads(replies.readline())
            return code or 0, output, errors

        yield run_one


def one_sentence(result: Result, code: int) -> str:
    """The error line of a result: exit code as expected, one line on stderr, no traceback."""
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("Error: ")
    return lines[0]


def save(
    folder: Path,
    body: str,
    *,
    name: str = "in.onnx",
    constants: str = CONSTANTS,
    opset: int = 17,
    ir_version: int = 8,
    outputs: str = "float[n, m] y",
    functions: str = "",
    imports: str = "",
) -> Path:
    """A model from ONNX text; its nodes are named after what they make."""
    text = (
        f'<ir_version: {ir_version}, opset_import: ["" : {opset}{imports}]> '
        f"g (float[n, 4] x) => ({outputs}) <{constants}> {{ {body} }} {functions}"
    )
    model = onnx.parser.parse_model(text)
    for node in model.graph.node:
        node.name = f"/{node.output[0]}/{node.op_type}"
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


def gelus(folder: Path, count: int = 2, **settings: object) -> Path:
    """A stack of exact GELUs in primitive ops: x -> h1 -> h2 ... -> y."""
    names = ["x", *(f"h{place}" for place in range(1, count)), "y"]
    body = "".join(EXACT.format(i=f"l{place}", x=names[place], y=names[place + 1]) for place in range(count))
    return save(folder, body, **settings)  # type: ignore[arg-type]  # settings are those of save


def with_data_file(folder: Path) -> Path:
    """A GELU, and a weight in the data file w.data."""
    folder.mkdir()
    path = gelus(folder, 1)
    model = onnx.load(path)
    weight = onnx.TensorProto(name="weight", data_type=1, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.data")
    model.graph.initializer.append(weight)
    model.graph.node.add(op_type="Add", input=["weight", "weight"], output=["unused"], name="/unused/Add")
    path.write_bytes(model.SerializeToString())
    (folder / "w.data").write_bytes(bytes(8))
    return path


def ops(path: Path) -> list[str]:
    """The ops of the main graph, in order."""
    nodes = onnx.load(path).graph.node
    return [f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in nodes]


RULES = '''
"""Rules that go wrong, each in its own way."""

from surgeon import Graph, Tensor, require, rule


def exact(g: Graph, x: Tensor) -> Tensor:
    return g.mul(x, 0.5, g.add(g.erf(g.div(x, 2 ** 0.5)), 1.0))


@rule(patterns=[exact])
def wrong(g: Graph, x: Tensor) -> Tensor:
    """Compute something else."""
    return g.relu(x)


@rule(patterns=[exact])
def unknown(g: Graph, x: Tensor) -> Tensor:
    """Write an op that nobody can run."""
    return g.op("my.domain::Thing", x)


@rule(patterns=[exact])
def raising(g: Graph, x: Tensor) -> Tensor:
    """Divide by zero."""
    return g.relu(x, 1 / 0)


def never(x: Tensor) -> None:
    """Refuse all."""
    require(False, "it is never wanted")


@rule(patterns=[exact], conditions=[never])
def refusing(g: Graph, x: Tensor) -> Tensor:
    """Refuse every match."""
    return g.ms_gelu(x)
'''


def rule_file(folder: Path) -> Path:
    """A file of rules that go wrong: wrong, unknown, raising, refusing."""
    path = folder / "my_rules.py"
    path.write_text(RULES)
    return path
