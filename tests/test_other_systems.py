"""Windows and macOS, as far as Linux can pass for them: the calls that they lack are taken away, in children too.

`other_systems/sitecustomize.py` says what that is.  Nothing was run on these systems themselves.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from surgeon.errors import ModelFileError
from surgeon.file.external_data import locations
from surgeon.file.model import Model
from surgeon.file.save import save
from surgeon.runtime.processes import worker, worker_main
from surgeon.runtime.processes.worker import Task, TaskFailure, TaskResult, Worker
from tests.command_line import gelus, process, rule_file
from tests.model_samples import WEIGHTS, files_in, renamed
from tests.model_samples import external as with_data

SYSTEMS = ("win32", "darwin")
HERE = Path(__file__).parent / "other_systems"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it is Linux that passes for another system here")


def on(system: str, *arguments: object) -> CompletedProcess[str]:
    """Run Python on another system."""
    return process(*arguments, PYTHONPATH=str(HERE), TEST_SYSTEM=system)


IS_ANOTHER = """
import os, signal, subprocess, sys
print(sys.platform, [name for name in sys.argv[1].split() if hasattr(os, name) or hasattr(signal, name)])
try:
    import fcntl, resource
    print("fcntl")
except ImportError:
    print("no fcntl")
file = open(sys.argv[2], "rb")
for change in (os.replace, os.rename, lambda path, _: os.unlink(path)):
    try:
        change(sys.argv[2], sys.argv[2] + "x")
        os.rename(sys.argv[2] + "x", sys.argv[2])
    except OSError as error:
        print(error.errno, end=" ")
"""


def test_it_is_another_system_and_children_are_too(tmp_path: Path) -> None:
    """Without this the other tests would say nothing."""
    kept = ["fork", "pread", "fchmod", "fchown", "O_NOFOLLOW", "SIGKILL", "setitimer"]
    calls = " ".join(["copy_file_range", "memfd_create", "sched_getaffinity", "SEEK_DATA", *kept])
    (tmp_path / "file").write_bytes(b"data")
    windows = on("win32", "-c", IS_ANOTHER, calls, tmp_path / "file")
    assert windows.stdout.split("\n") == ["win32 []", "no fcntl", "13 13 13 "], windows.stderr
    mac = on("darwin", "-c", IS_ANOTHER.replace("lambda path, _: os.unlink(path)", ""), calls, tmp_path / "file")
    assert mac.stdout.split("\n") == [f"darwin {kept}", "fcntl", ""], mac.stderr


COMMANDS = """
import json, sys
from tests.command_line import run
for line in json.loads(sys.argv[1]):
    done = run(*line)
    print(json.dumps([done.exit_code, done.stdout, done.stderr]))
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_command_ends_well(system: str, tmp_path: Path) -> None:
    """Over the file that was read, with data files that come along, with children that prove and run whole models."""
    path, out, picture = gelus(tmp_path, 1), tmp_path / "out.onnx", tmp_path / "out.svg"
    rules = tmp_path / "rules"
    for folder in ("apart", "elsewhere", "rules"):
        (tmp_path / folder).mkdir()
    apart, elsewhere = tmp_path / "apart" / "m.onnx", tmp_path / "elsewhere" / "m.onnx"
    model = onnx.load(path)
    model.graph.node.add(op_type="MatMul", input=["y", "w"], output=["z"], name="/z")
    model.graph.output[0].name = "z"
    model.graph.initializer.append(numpy_helper.from_array(WEIGHTS[:4].reshape(4, 1), "w"))
    onnx.save(model, apart, save_as_external_data=True, location="w.data", size_threshold=0)
    commands = [
        (("rewrite", path, out, "--rules", "gelu", "--check", "both", "--compare-layers"), "PROVED"),
        (("compare", path, out), "PROVED"),
        (("rewrite", apart, elsewhere, "--rules", "gelu"), "PROVED"),
        (("rewrite", apart, apart, "--rules", "gelu", "--check", "both"), "PROVED"),
        (("check", apart), "no problems found for ONNX Runtime"),
        (("upgrade", out, out, "--opset", 20), "PROVED"),
        (("draw", out, picture), "drawn"),
        (("explain", path, "--rules", "gelu"), "gelu"),
        (("bench", path, out, "--dim", "n=3", "--loads", 1, "--seconds", "0"), "rounds"),
        (("rewrite", path, out, "--rules", f"{rule_file(rules)}:wrong"), "rolled back"),
    ]
    done = on(system, "-c", COMMANDS, json.dumps([[str(word) for word in line] for line, _ in commands]))
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == len(commands), done.stderr
    for (line, word), (code, text, error) in zip(commands, results, strict=True):
        assert (code, word in text) == (int(word == "rolled back"), True), (line, text, error)
    assert apart.read_bytes() == elsewhere.read_bytes()
    shutil.rmtree(rules)  # Python compiled the file there
    assert files_in(tmp_path) == {
        "in.onnx", "out.onnx", "out.svg", "apart/m.onnx", "apart/w.data", "elsewhere/m.onnx", "elsewhere/w.data",
    }  # fmt: skip


IN_PLACE = """
import sys
import numpy as np
from surgeon.file.model import Model
from surgeon.file.save import save
from tests.model_samples import renamed
with Model.open(sys.argv[1]) as model:
    kept = [model.value(tensor) for tensor in model.skeleton.graph.initializer]
    save(model, renamed(model), sys.argv[1])
    print([float(array.sum()) for array in kept])
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_model_whose_values_are_in_use_is_saved_over_itself(system: str, tmp_path: Path) -> None:
    """On Windows a file that an array looks into could not be replaced, so that arrays there are copies."""
    large = np.ones((300, 300), np.float32)
    graph = onnx.helper.make_graph([], "g", [], [], [numpy_helper.from_array(large, "w")])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "m.onnx")
    done = on(system, "-c", IN_PLACE, tmp_path / "m.onnx")
    assert done.stdout == "[90000.0]\n", done.stderr
    assert onnx.load(tmp_path / "m.onnx").graph.name == "renamed"
    assert files_in(tmp_path) == {"m.onnx"}


SWEEP = """
import os, sys
from surgeon.file.io.atomic_file import AtomicFile
held = open(sys.argv[2], "rb")
for _ in range(2):
    with AtomicFile(__import__("pathlib").Path(sys.argv[1])) as file:
        os.write(file.handle, b"new")
        file.commit()
    print(os.path.exists(sys.argv[2]))
    held.close()
"""


def test_what_a_living_run_has_open_stays_on_windows(tmp_path: Path) -> None:
    """There are no locks to ask; trying to remove it tells, and does not stop the save."""
    litter = tmp_path / ".m.onnx.surgeon-999999.tmp"
    litter.write_bytes(b"half")
    done = on("win32", "-c", SWEEP, tmp_path / "m.onnx", litter)
    assert done.stdout.split() == ["True", "False"], done.stderr
    assert files_in(tmp_path) == {"m.onnx"}


ENDLESS = """
from surgeon.runtime.processes.worker import Task, Worker
child = Worker()
print(child.run(Task("tests.child_tasks:work", 0.0, 10.0)).value["pid"] == child.popen.pid)
print(child.run(Task("tests.child_tasks:spin", 3, 0.5)))
"""


def test_what_hangs_is_ended_by_the_clock_where_no_timer_is() -> None:
    """On macOS its last note is known too: children inherit files that have no name."""
    for system, text in (
        ("win32", "clock', detail='', last_note=None"),
        ("darwin", "time', detail='', last_note={'at': 3}"),
    ):
        done = on(system, "-c", ENDLESS)
        assert done.stdout.split("\n")[:2] == ["True", f"TaskFailure(cause='{text})"], done.stderr


def test_children_that_note_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows they inherit no open files: what they do is done, and of what ended it the note is missing."""
    monkeypatch.setattr(worker, "_page", lambda: None)
    one = Worker()
    try:
        answer = one.run(Task("tests.child_tasks:work", 0.0, 10.0))
        assert isinstance(answer, TaskResult)
        assert one.run(Task("tests.child_tasks:crash", 11, 10.0)) == TaskFailure("crash", "SIGSEGV")
    finally:
        one.end()


def test_no_place_for_a_page_of_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in memory nor in a file."""

    def refuse(*_: object) -> int:
        raise OSError(28, "no")

    monkeypatch.setattr(os, "memfd_create", refuse)
    assert worker._page() is None
    monkeypatch.delattr(os, "memfd_create")
    handle = worker._page()
    assert handle is not None
    assert os.fstat(handle).st_nlink == 0
    os.close(handle)
    monkeypatch.setattr("tempfile.mkstemp", refuse)
    assert worker._page() is None


def test_a_limit_of_memory_that_the_system_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """No limit at all is set then, and the task is done."""

    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    limits = SimpleNamespace(RLIMIT_DATA=2, getrlimit=lambda _: (-1, -1), setrlimit=refuse)
    monkeypatch.setitem(sys.modules, "resource", limits)
    worker_main._allow_memory(1 << 30)
    monkeypatch.setitem(sys.modules, "resource", None)
    worker_main._allow_memory(1 << 30)


@pytest.mark.parametrize(
    "location", ["..\\w.data", "a\\..\\..\\w.data", "\\w.data", "D:w.data", "\\\\host\\share\\w.data"]
)
def test_windows_paths_out_of_the_folder_are_refused_everywhere(location: str, tmp_path: Path) -> None:
    """A model that is harmless here must not be harmful there."""
    with pytest.raises(ModelFileError, match="outside the model's folder"):
        locations.resolve(tmp_path, location)


def test_a_folder_on_another_drive_is_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no path in common for it and says so by an exception."""

    def refuse(_: object) -> str:
        raise ValueError("Paths don't have the same drive")

    monkeypatch.setattr(os.path, "commonpath", refuse)
    with pytest.raises(ModelFileError, match="link out of the model's folder"):
        locations.resolve(tmp_path, "w.data")


def test_backslashes_in_a_location_are_reported(tmp_path: Path) -> None:
    """Of a model that was written on Windows; where a file has such a name, it is taken as onnx takes it."""
    path = with_data(tmp_path / "source" / "m.onnx", "sub\\w.data", write=False)
    with Model.open(path) as model:
        with pytest.raises(ModelFileError, match="Backslashes separate folders only on Windows"):
            save(model, renamed(model), tmp_path / "out.onnx")
        with_data(path, "sub\\w.data")
    with Model.open(path) as model:
        np.testing.assert_array_equal(model.value(model.skeleton.graph.initializer[0]), WEIGHTS)


ELSEWHERE = """
import sys
from surgeon.file.model import Model
from surgeon.file.save import save
with Model.open(sys.argv[1]) as model:
    save(model, None, sys.argv[2])
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_data_files_come_along_where_the_kernel_does_not_help(system: str, tmp_path: Path) -> None:
    """By plain reads and writes, holes and all."""
    path = with_data(tmp_path / "source" / "m.onnx")
    with path.with_name("w.data").open("ab") as file:
        file.truncate(10 << 20)
    (tmp_path / "out").mkdir()
    done = on(system, "-c", ELSEWHERE, path, tmp_path / "out" / "m.onnx")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "w.data").read_bytes() == path.with_name("w.data").read_bytes()
    assert files_in(tmp_path / "out") == {"m.onnx", "w.data"}
