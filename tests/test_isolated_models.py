"""Whole models run in a worker process: a crash or a timeout is reported in one sentence."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import surgeon
from surgeon import CheckOptions, UsageError
from surgeon.runtime.processes import worker
from surgeon.runtime.sessions import isolated_session
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
from surgeon.runtime.sessions.model_session import open_model
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.testing import parse
from tests.command_line import run

HEAD = '<ir_version: 8, opset_import: ["": 17]> g '
# The least integer divided by -1 ends a process.
CRASHES = (
    f"{HEAD}(float[n] x) => (float[n] y) <int64 least = {{-9223372036854775808}}, int64 less = {{-1}}> "
    "{ q = Div(least, less) f = Cast<to = 1>(q) y = Add(x, f) }"
)
RUNS = f"{HEAD}(float[n] x, string[n] w) => (float[n] y, string[n] v) {{ y = Neg(x) v = Identity(w) }}"
ENDLESS = (
    f"{HEAD}(float[n] x) => (float[n] y) <int64 often = {{1000000000000}}, bool on = {{1}}> "
    "{ y = Loop(often, on, x) <body = b (int64 i, bool c, float[n] a) => (bool d, float[n] e) "
    "{ d = Identity(c) e = Neg(a) }> }"
)


def test_it_answers_as_in_this_process() -> None:
    """Numbers and words, and as few outputs as are asked for."""
    feeds = {"x": np.array([1.5, -2], np.float32), "w": np.array(["a", "ö\n"], object)}
    with open_model(parse(RUNS)) as here, IsolatedRuntime().open(parse(RUNS)) as there:
        assert (there.name, there.inputs, there.outputs) == (here.name, here.inputs, here.outputs)
        one, other = here.run(feeds), there.run(feeds)
        assert list(one) == list(other)
        for name, array in one.items():
            assert array.dtype == other[name].dtype
            assert np.array_equal(array, other[name])
        there.outputs = ("v",)
        assert list(there.run(feeds)) == ["v"]
        with pytest.raises(SessionError, match="x"):
            there.run({"w": feeds["w"]})
        assert list(there.run(feeds)) == ["v"]


def test_two_are_held_at_once_and_their_children_serve_again() -> None:
    feeds = {"x": np.ones(2, np.float32), "w": np.array(["a", "b"], object)}
    with IsolatedRuntime().open(parse(RUNS)) as one, IsolatedRuntime().open(parse(RUNS.replace("Neg", "Abs"))) as other:
        assert one.run(feeds)["y"][0] == -1
        assert other.run(feeds)["y"][0] == 1
    before = set(worker.idle_process_ids())
    with IsolatedRuntime().open(parse(RUNS)) as again:
        assert again.run(feeds)["y"][0] == -1
        assert len(before - set(worker.idle_process_ids())) == 1
    assert set(worker.idle_process_ids()) == before


def test_a_model_that_ends_its_process_is_refused_and_this_one_lives() -> None:
    with IsolatedRuntime().open(parse(CRASHES)) as whole:
        for _ in range(2):
            with pytest.raises(SessionError, match="ended its process with SIGFPE"):
                whole.run({"x": np.ones(2, np.float32)})
    harmless = parse(CRASHES.replace("-1}", "-2}"))
    assert surgeon.compare(parse(CRASHES), harmless).outcome.value == "unproved"
    result = surgeon.compare(harmless, parse(CRASHES))
    assert result.outcome.value == "failed"
    assert "SIGFPE" in result.reason


def test_a_model_that_takes_too_long_is_unproved(tmp_path: Path) -> None:
    result = surgeon.compare(parse(ENDLESS), parse(ENDLESS), run_time=0.5)
    assert result.outcome.value == "unproved"
    assert "A run takes more than" in result.reason
    assert "--run-time 2.5" in result.reason
    endless = tmp_path / "endless.onnx"
    onnx.save(parse(ENDLESS), endless)
    found = run("compare", endless, endless, "--run-time", "0.5")
    assert found.exit_code == 1
    assert "A run takes more than" in found.output


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
def test_a_time_in_which_nothing_runs_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="Invalid run time of .* s"):
        surgeon.compare(parse(RUNS), parse(RUNS), run_time=seconds)
    with pytest.raises(UsageError, match="Invalid run time of .* s"):
        CheckOptions(run_time=seconds).require()


def test_a_model_of_one_s_own_process_runs_here() -> None:
    """An implementation that is bound to this process cannot be sent."""
    model = onnx.parser.parse_model(RUNS)
    assert not isolated_session._is_computed_here(model, ())
    assert isolated_session._is_computed_here(model, {("", "Neg")})
    assert not isolated_session._is_computed_here(model, {("", "Abs")})


def test_a_file_that_is_not_there_does_not_load_whatever_is_implemented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether an implementation is bound to this process is asked of the file first."""
    monkeypatch.setattr(isolated_session, "local_only_ops", lambda _: {("mine", "own")})
    with pytest.raises(SessionError), IsolatedRuntime().open(tmp_path / "none.onnx"):
        pass
