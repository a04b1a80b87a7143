"""Worker processes isolate crashes, hangs and memory limits, and leave nothing behind."""

import json
import os
import platform
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from surgeon import ModelFileError, UsageError
from surgeon.runtime.processes import worker
from surgeon.runtime.processes.worker import Task, TaskFailure, TaskResult
from surgeon.runtime.processes.worker_main import MALLOC_SETTINGS
from surgeon.runtime.processes.worker_pool import prefork_workers, run

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 600  # seconds until a process that is to end must have: no test judges by how soon it does

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and limits of processes")


def task(name, argument=None, seconds=60.0):
    return Task(f"tests.child_tasks:{name}", argument, seconds)


def exists(pid):
    """Whether a process is there, and no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        return not stat.parent.parent.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(pid):
    """Whether a process ends."""
    until = time.monotonic() + PATIENCE
    while exists(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not exists(pid)


def test_numbers_and_arrays_come_back():
    array = np.arange(6, dtype=np.float16).reshape(2, 3)
    (answer,) = run([task("double", {"number": 21, "array": array})], 1)
    assert answer.value["number"] == 42
    assert answer.value["pid"] != os.getpid()
    assert answer.arrays[0].dtype == np.float16
    np.testing.assert_array_equal(answer.arrays[0], 2 * array)


def test_results_are_in_order_whatever_the_number_of_children():
    tasks = [task("work", seconds) for seconds in (0.3, 0.01, 0.2, 0.01, 0.1, 0.01)]
    numbers = [task("double", {"number": number, "array": np.zeros(1)}) for number in range(6)]
    mixed = [item for pair in zip(tasks, numbers, strict=True) for item in pair]
    for jobs in (1, 3):
        assert [result.value["number"] for result in run(mixed, jobs)[1::2]] == [0, 2, 4, 6, 8, 10]


def test_several_work_at_once(tmp_path):
    """Each waits for the other."""
    pids = [result.value["pid"] for result in run([task("meet", [str(tmp_path), 2])] * 2, 2)]
    assert len(set(pids)) == 2
    again = [result.value["pid"] for result in run([task("sleep", 0), task("sleep", 0)], 1)]
    assert len(set(again)) == 1


def test_a_child_is_kept():
    pids = [run([task("sleep", 0)], 1)[0].value["pid"] for _ in range(3)]
    assert len(set(pids)) == 1
    assert pids[0] in worker.idle_process_ids()


def test_too_much_processor_time_ends_the_child():
    before, (result,), after = (run([item], 1) for item in (task("sleep", 0), task("spin", 7, 0.3), task("sleep", 0)))
    assert result == TaskFailure("time", last_note={"at": 7})
    assert after[0].value["pid"] != before[0].value["pid"]
    assert ends(before[0].value["pid"])


def test_processor_time_counts_and_not_the_clock():
    """A task that waits for a busy machine is not late."""
    (result,) = run([task("sleep", 0.4, 0.1)], 1)
    assert isinstance(result, TaskResult)


def test_too_long_by_the_clock_ends_the_child():
    run([task("sleep", 0)], 1)  # what is new may take its time to start
    (result,) = run([task("sleep", PATIENCE, 0.05)], 1)
    assert result == TaskFailure("clock", last_note={"at": PATIENCE})


def test_too_much_memory_is_no_end(monkeypatch):
    monkeypatch.setattr(worker, "memory_limit", lambda share: 1 << 29)
    (first,) = run([task("sleep", 0)], 1)
    result, after = run([task("hog", "here"), task("sleep", 0)], 1)
    assert result == TaskFailure("memory", last_note={"at": "here"})
    assert after.value["pid"] == first.value["pid"]


@pytest.mark.parametrize("name", ["SIGFPE", "SIGSEGV", "SIGKILL", "SIGABRT"])
def test_a_crash_is_named(name, capfd):
    (result,) = run([task("crash", int(getattr(signal, name)))], 1)
    assert result == TaskFailure("crash", name, {"at": int(getattr(signal, name))})
    assert capfd.readouterr() == ("", "")


def test_a_child_that_leaves_or_babbles_gives_no_answer():
    left, babbled = run([task("leave", 3), task("babble")], 1)
    assert left == TaskFailure("end", "exit code 3", {})
    assert babbled.cause == "end"


def test_what_a_function_raises():
    with pytest.raises(UsageError, match="^do so$"):
        run([task("misuse", "do so")], 1)
    with pytest.raises(ModelFileError, match="^mend it$"):
        run([task("misread", "mend it")], 1)
    with pytest.raises(RuntimeError, match=r"(?s)LookupError in a worker process: gone\n.*child_tasks.py"):
        run([task("fail", "gone"), task("sleep", PATIENCE)], 2)


def test_the_public_names_are_there_for_who_asks():
    """A child loads few modules; a user's file may want them all."""
    import surgeon

    (result,) = run([task("public_names")], 1)
    assert result.value == {"name": "rule", "all": len(surgeon.__all__)}


PROGRAM = """
    import os, signal
    from surgeon.runtime.processes.fork import allow_fork
    allow_fork()
    import json, sys, tempfile
    import numpy as np
    from surgeon.runtime.processes import worker
    from surgeon.runtime.processes.worker import Task, TaskResult
    from surgeon.runtime.processes.worker_pool import prefork_workers, run

    def ask(name, argument=None, seconds=60.0):
        (result,) = run([Task(f"tests.child_tasks:{name}", argument, seconds)], 1)
        return result.value if isinstance(result, TaskResult) else [result.cause, result.detail, result.last_note]

    secret = tempfile.TemporaryFile()
    prefork_workers(2)
    copies = worker.idle_process_ids()
"""
copied = pytest.mark.skipif(sys.platform != "linux", reason="other systems start processes of Python")


def program(text, **options):
    """A program whose children are copies of it."""
    return script(textwrap.dedent(PROGRAM) + textwrap.dedent(text), **options)


@copied
def test_a_copy_does_what_a_child_does():
    """It answers, ends by its time or by a crash, has the memory it may have, and others start in its place."""
    result, noise = program("""
        print("to be said once", end=" ")
        found = {"copies": copies, "parent": os.getpid()}
        found["pid"] = ask("double", {"number": 21, "array": np.ones(3)})["pid"]
        found["again"] = ask("sleep", 0)["pid"]
        found["secret"], found["files"] = os.readlink(f"/proc/self/fd/{secret.fileno()}"), ask("open_files")
        found["signals"] = ask("signals")
        found["late"] = ask("spin", 7, 0.3)
        found["second"] = ask("sleep", 0)["pid"]
        worker.memory_limit = lambda share: 1 << 29
        found["large"] = ask("hog", "here")
        found["crash"] = ask("crash", int(signal.SIGSEGV))
        found["third"] = ask("sleep", 0)["pid"]
        print(json.dumps(found))
    """).communicate(timeout=PATIENCE)
    assert not noise
    once, _, text = result.partition(" {")
    assert once == "to be said once"
    found = json.loads("{" + text)
    assert len(found["copies"]) == 2
    assert found["pid"] == found["again"] in found["copies"]
    assert found["secret"] not in found["files"]
    assert sum("pipe" in file for file in found["files"]) == 2  # its own, and of no other child
    assert found["signals"] == {"SIGINT": "SIG_IGN", "SIGTERM": "SIG_DFL", "SIGHUP": "SIG_DFL"}
    assert found["late"] == ["time", "", {"at": 7}]
    assert found["second"] in set(found["copies"]) - {found["pid"]}
    assert found["large"] == ["memory", "", {"at": "here"}]
    assert found["crash"] == ["crash", "SIGSEGV", {"at": int(signal.SIGSEGV)}]
    assert found["third"] not in found["copies"]
    assert not any(exists(pid) for pid in (*found["copies"], found["third"]))


@copied
def test_copies_are_of_programs_alone():
    """Whoever imports surgeon may have threads, and holds what no copy of it is to hold."""
    before = worker.idle_process_ids()
    prefork_workers(4)
    assert worker.idle_process_ids() == before


@copied
@pytest.mark.parametrize("with_signal", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_copies_end_with_their_parent(with_signal):
    """Also the one that has a pipe of the other's open for a moment, and while one of them works."""
    parent = program("""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print(*copies, flush=True)
        ask("spin", 0, 600.0)
    """)
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    time.sleep(0.3)
    parent.send_signal(getattr(signal, with_signal))
    parent.communicate(timeout=PATIENCE)
    assert all(ends(pid) for pid in pids)


def script(text, *arguments, **options):
    """A Python script that runs with this repository's packages, and that Ctrl-C reaches."""
    code = textwrap.dedent(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a shell's jobs behind & ignore it
        **options,
    )


# Who is started in the background ignores SIGINT, and so would all that it starts.
BUSY = """
    import signal, sys, threading
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from surgeon.runtime.processes.worker import Task, idle_process_ids
    from surgeon.runtime.processes.worker_pool import run
    (first,) = run([Task("tests.child_tasks:sleep", 0, 60.0)], 1)
    print(first.value["pid"], flush=True)
    {}
"""
SPINNING = 'run([Task("tests.child_tasks:spin", 0, 600.0)], 1)'


@pytest.mark.parametrize("with_signal", ["SIGKILL", "SIGTERM", "SIGINT"])
@pytest.mark.parametrize("work", [SPINNING, "import time; time.sleep(600)"], ids=["busy", "idle"])
def test_children_end_with_their_parent(with_signal, work):
    parent = script(BUSY.format(work))
    child = int(parent.stdout.readline())
    time.sleep(0.3)  # until it is at its work
    parent.send_signal(getattr(signal, with_signal))
    _, noise = parent.communicate(timeout=PATIENCE)
    assert ends(child)
    assert with_signal == "SIGINT" or not noise
    assert with_signal != "SIGINT" or noise.rstrip().endswith("KeyboardInterrupt")


def test_a_terminal_interrupts_the_whole_group():
    parent = script(BUSY.format(SPINNING), start_new_session=True)
    child = int(parent.stdout.readline())
    time.sleep(0.3)
    os.killpg(parent.pid, signal.SIGINT)
    _, noise = parent.communicate(timeout=PATIENCE)
    assert ends(child)
    assert noise.count("KeyboardInterrupt") == 1


def test_a_process_ends_without_waiting_for_its_children():
    parent = script(BUSY.format("print('done')"))
    out, noise = parent.communicate(timeout=PATIENCE)
    child, done = out.split()
    assert done == "done"
    assert not noise
    assert ends(int(child))


def test_a_fork_has_children_of_its_own():
    text = """
        import os
        before = idle_process_ids()
        pid = os.fork()
        if not pid:
            (other,) = run([Task("tests.child_tasks:sleep", 0, 60.0)], 1)
            print(other.value["pid"], flush=True)
            raise SystemExit(0)
        os.waitpid(pid, 0)
        (again,) = run([Task("tests.child_tasks:sleep", 0, 60.0)], 1)
        print(again.value["pid"], flush=True)
    """
    parent = script(textwrap.dedent(BUSY).format(textwrap.dedent(text)))
    out, noise = parent.communicate(timeout=PATIENCE)
    first, of_fork, again = map(int, out.split())
    assert first == again != of_fork
    assert not noise
    assert all(ends(pid) for pid in (first, of_fork))


KEEPING = """
import sys
from pathlib import Path
from surgeon.runtime.processes.worker_main import release_memory

def held():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

blocks = [b"x" * (1 << 24) for _ in range(16)]
full = held()
del blocks
kept = held()
release_memory()
print(full, kept, held())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries read no such settings")
def test_memory_is_kept_for_the_next_run_and_given_back_without_work():
    """What one run lets go stays with a child that works on, so that it need not ask for the same pages again."""
    kept_pages = {name: str(value) for name, value in MALLOC_SETTINGS.items()}
    result = subprocess.run(
        [sys.executable, "-c", KEEPING], env={**os.environ, **kept_pages}, check=True, capture_output=True, text=True
    )
    full, kept, left = map(int, result.stdout.split())
    assert full - kept < 1 << 25
    assert kept - left > 1 << 27
