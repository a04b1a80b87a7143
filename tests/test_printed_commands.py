"""Every command that a message prints does what the message says, on the model that made surgeon print it."""

import shlex
import sys
from pathlib import Path

import onnx
import pytest

import surgeon
from surgeon.display.viewer.server import ViewerServer
from surgeon.errors import UsageError
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.runtime.tensorrt.compatibility import Incompatibility
from surgeon.runtime.tensorrt.engine import GpuEngine
from surgeon.runtime.tensorrt.error_messages import FIXED_RANK
from surgeon.runtime.tensorrt.library import installed
from surgeon.runtime.tensorrt.parser_tasks import ParseRequest
from surgeon.targets.tensorrt.parser_findings import _helps
from tests.command_line import run
from tests.printed_command_cases import CASES
from tests.printed_command_models import RELU, at
from tests.printed_commands import Case, check, recorded, sites, spelled_commands

ELSEWHERE = {
    "surgeon.targets.tensorrt.size_advice.next_steps",
    "surgeon.cli.command_group._defect",
    "surgeon.targets.tensorrt.parser_findings._helps",
    "surgeon.targets.tensorrt.parser_findings._commands",
    "surgeon.runtime.tensorrt.engine.__init__",
    "surgeon.runtime.tensorrt.isolated_engine.require_runtime",
    "surgeon.display.viewer.view.view",
    "surgeon.integrations.assistant_server._rules",
}
"""Places that other tests run, below, in `test_tensorrt_sizes` and in `test_assistant_server`: a defect, a missing
package, a GPU, a build, a server."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands run in a folder of their own; a viewer opens no browser, and ends at once."""

    def end(_: ViewerServer) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ViewerServer, "serve_forever", end)
    monkeypatch.setattr("webbrowser.open", lambda _: True)


@pytest.mark.usefixtures("forget_implementations")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.site.removeprefix("surgeon."))
def test_a_printed_command_does_what_its_message_says(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_every_command_is_run() -> None:
    """Each place in the code that makes a command has a model above that makes surgeon print it."""
    assert {case.site for case in CASES} | ELSEWHERE == set(sites())


def test_no_message_spells_a_command_itself() -> None:
    """A command that is typed into a sentence would be found by no test above."""
    assert list(spelled_commands()) == []


def test_the_command_of_a_defect_shows_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that a user is asked to run ends in the error itself."""

    def broken(*_: object) -> None:
        raise ValueError("not even wrong")

    monkeypatch.setattr("surgeon.pipeline.rewriting.rule_set.open_index", broken)
    onnx.save(onnx.parser.parse_model(RELU), "in.onnx")
    with recorded() as made:
        said = run("rewrite", "in.onnx", "out.onnx", "--rules", "gelu")
    (printed,) = made["surgeon.cli.command_group._defect"]
    assert said.stderr.endswith(f"{printed}\n")
    shown = run(*shlex.split(printed)[1:])
    assert isinstance(shown.exception, ValueError)


def test_the_command_instead_of_a_notebook_s_view(monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(onnx.parser.parse_model(RELU), "MODEL")
    monkeypatch.delitem(sys.modules, "surgeon.display.viewer.widget", raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with recorded() as made, pytest.raises(UsageError) as raised:
        surgeon.view("MODEL")
    (printed,) = made["surgeon.display.viewer.view.view"]
    assert printed in str(raised.value)
    assert "is at http://" in run(*shlex.split(printed)[1:]).output


def test_the_command_that_fixes_a_rank() -> None:
    """TensorRT's builder wants to know which of the sizes are 1 where a Squeeze names no axes."""
    onnx.save(onnx.parser.parse_model(at(13, "(float[n, 4] x) => (float[m] y) { y = Squeeze(x) }")), "in.onnx")
    fault = Incompatibility(0, f"a size decides {FIXED_RANK}", "build")
    (help_,) = _helps(fault, {"n": (1, 1, 1)})
    words = shlex.split(help_.replace("IN OUT", "in.onnx out.onnx"))
    done = run(*words[words.index("surgeon") + 1 :])
    assert done.exit_code == 0
    assert onnx.load("out.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_value == 1


@pytest.mark.skipif(installed() is None, reason="there is no tensorrt-rtx: it has wheels for few platforms")
def test_the_commands_around_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is none a build is proposed; where TensorRT refuses a model, what names the nodes."""
    body = "(float[3, 3] x) => (float y) { y = Det(x) }"
    onnx.save(onnx.parser.parse_model(at(13, body)), "in.onnx")

    def none(_: str) -> str:
        return "there is no driver"

    with monkeypatch.context() as patched, recorded() as made:
        patched.setattr("surgeon.runtime.tensorrt.isolated_engine._gpu_missing", none)
        said = run("compare", "in.onnx", "in.onnx", "--with", "tensorrt")
    (printed,) = made["surgeon.runtime.tensorrt.isolated_engine.require_runtime"]
    assert printed in said.output
    assert "Det" in run(*_filled(printed)).output
    monkeypatch.setattr("surgeon.runtime.tensorrt.engine.GpuDriver", lambda: None)
    source = ParseRequest(installed().module, Path("in.onnx").read_bytes())
    with recorded() as made, pytest.raises(SessionError) as raised:
        GpuEngine(source, lambda _: None, short=True)
    (printed,) = made["surgeon.runtime.tensorrt.engine.__init__"]
    assert printed in str(raised.value)
    assert "Det (y)" in run(*_filled(printed)).output


def _filled(printed: str) -> list[str]:
    return ["in.onnx" if word == "IN" else word for word in shlex.split(printed)[1:]]
