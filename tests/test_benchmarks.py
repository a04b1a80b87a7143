"""The benchmark's own parts: its models are sound, its processes are measured, its bars can be missed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from surgeon.runtime.timing.latency import Bench
from tests.bench_results import bench_of
from tests.benchmarks import speed
from tests.benchmarks.bars import BARS, PROVED
from tests.benchmarks.calls import CASES, Cost, cost
from tests.benchmarks.latency import table, verdict
from tests.benchmarks.measure import Contender, Result, Run, measure, rounds
from tests.benchmarks.peers import PEERS
from tests.benchmarks.works import Stack, generate


def test_generated_stack_is_sound_and_typed(tmp_path: Path) -> None:
    """Six nodes a layer, every tensor between them typed, accepted by the checker and run by ONNX Runtime."""
    path = tmp_path / "stack.onnx"
    generate(Stack(3), path)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert len(model.graph.node) == 18
    assert len(model.graph.value_info) == 17
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert np.isfinite(session.run(None, {"x": np.ones((2, 8), np.float32)})[0]).all()


def test_sparse_data_take_no_room(tmp_path: Path) -> None:
    """External data are as long as the weights and hold nothing."""
    path = tmp_path / "stack.onnx"
    generate(Stack(4, hidden=1000, external=True, value_info=False), path)
    data = (tmp_path / "stack.onnx.data").stat()
    assert data.st_size == 16_000_000
    assert data.st_blocks == 0
    onnx.checker.check_model(str(path))


def test_the_equal_rule_fuses_every_gelu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """onnxscript's rule fits the generated form, so that the comparison is one of like with like."""
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    generate(Stack(5), source)
    PEERS["onnxscript"](str(source), str(target))
    PEERS["gelus"](str(target), "-")
    assert capsys.readouterr().out == "5"


def test_rounds_measure_each_command_and_rotate(tmp_path: Path) -> None:
    """Every contender runs once in each round, in a clean folder, and its memory is seen."""
    target = tmp_path / "out" / "file"
    write = "import sys; block = bytearray({}); open(sys.argv[1], 'x').close()"
    sizes = {"small": 1, "large": 200_000_000}
    commands = {name: (sys.executable, "-c", write.format(size), str(target)) for name, size in sizes.items()}
    contenders = [Contender(name, command, target) for name, command in commands.items()]
    results = rounds(contenders, 2, lambda path: int(path.exists()))
    assert [len(result.runs) for result in results.values()] == [2, 2]
    assert [result.gelus for result in results.values()] == [1, 1]
    assert results["large"].megabytes > 200


def test_a_worker_that_is_left_counts_and_another_child_is_not_waited_for() -> None:
    """Children of this process that are not the command's, such as a pool of proofs, may live on."""
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    worker = "import os\nwhile os.times().user < 0.5: pass"
    command = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {worker!r}])"
    run = measure((sys.executable, "-c", command))
    assert other.poll() is None
    other.communicate(b"\n")
    assert run.processor >= 0.5 or sys.platform != "linux"


def test_a_failing_command_ends_the_benchmark() -> None:
    """What the command said last is passed on."""
    with pytest.raises(SystemExit, match="ended with 3"):
        measure((sys.executable, "-c", "raise SystemExit(3)"))


@pytest.mark.parametrize(
    ("work", "good", "bad"),
    [
        (
            "n20000",
            {"surgeon": (1, 100), PROVED: (1.5, 150), "onnxscript": (5, 200), "gs": (5, 200)},
            {"surgeon": (2, 190), PROVED: (4.5, 190)},
        ),
        ("hundred", {PROVED: (1, 100)}, {PROVED: (6, 600)}),
        ("big", {"surgeon": (2, 100), "cp + fsync": (1.5, 10)}, {"surgeon": (3, 300)}),
        ("sparse", {"surgeon": (0.5, 100)}, {"surgeon": (1.5, 100)}),
        ("growth", {"n2000": (1, 1), "n20000": (11, 1), "n200000": (121, 1)}, {"n20000": (13, 1), "n200000": (170, 1)}),
    ],
)
def test_bars_are_held_and_missed(work: str, good: dict[str, tuple], bad: dict[str, tuple]) -> None:
    """Figures inside the bars hold all of them, figures beyond miss all of them."""

    def held(figures: dict[str, tuple]) -> list[bool]:
        results = {name: Result([Run(*figure)]) for name, figure in figures.items()}
        return [bar.held for bar in BARS[work](results)]

    assert all(held(good))
    assert not any(held(good | bad))


@pytest.mark.parametrize("work", speed.WORKS)
def test_rows_of_the_speed_table_are_held_and_missed(work: str) -> None:
    """Equal contenders hold or miss each bar, whichever side of 1 it has; a row without its contender raises."""
    rows = speed.WORKS[work].rows
    assert rows
    for row in rows:
        runs = {name: [Run(row.bar, 100, row.bar)] for name in speed.WORKS[work].commands}
        found = row.figure(runs)
        line, held = row.line(runs)
        assert held == (found >= row.bar if row.at_least else found <= row.bar)
        assert line.startswith(f"| {row.text} | {found:.2f} | ")
        with pytest.raises(KeyError):
            row.line({})


def test_processor_time_includes_workers() -> None:
    """A worker that outlives its command counts too, where Linux says so."""
    spin = "import time\nwhile time.process_time() < 0.4: pass"
    start = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {spin!r}])"
    run = measure((sys.executable, "-c", start))
    assert run.processor > 0.4 or sys.platform != "linux"


def _bench(**milliseconds: float) -> Bench:
    """Models that took the same in each of ten loads."""
    return bench_of({name: [value] * 10 for name, value in milliseconds.items()}, threads=0)


def test_latencies_make_a_table() -> None:
    """One row for each, by the original."""
    found = _bench(original=10.0, surgeon=8.0, ort=9.96)
    rows = list(table("bert, sequence 128", ["original", "surgeon", "ort"], found))
    assert rows[2:] == [
        "| original | 10.0 | 1 | | |",
        "| surgeon | 8.0 | 0.800 | 0.800 to 0.800 | faster |",
        "| ort | 10.0 | 0.996 | 0.996 to 0.996 | no difference within noise |",
    ]


@pytest.mark.parametrize(("ours", "held"), [(8.0, True), (9.04, True), (9.5, False), (12.0, False)])
def test_surgeon_is_compared_with_the_best_of_the_others(ours: float, held: bool) -> None:
    """The best is the one with the lowest latency, the original among them; less than a per cent is noise."""
    names = ["original", "surgeon", "ort", "onnxscript"]
    text, fine = verdict(names, _bench(original=10.0, surgeon=ours, ort=9.0, onnxscript=11.0))
    assert fine == held
    assert "the best of the others, ort: " in text
    assert text.endswith("held" if held else "MISSED")


def test_surgeon_without_a_file_misses_the_bar() -> None:
    assert not verdict(["original", "ort"], _bench(original=10.0, ort=9.0))[1]


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("first rewrite, proved", Cost(51_000, 232)),  # modules of the kinds of models in memory, and of plugins
        ("second rewrite, proved", Cost(40_000, 170)),
        ("first rewrite, not proved", Cost(20_000, 179)),
        ("second rewrite, not proved", Cost(9_000, 122)),
        ("second rewrite, proved, no shapes declared", Cost(40_000, 170)),
    ],
)
def test_a_gelu_takes_few_calls(name: str, most: Cost) -> None:
    """Once it took twice as many, half of them to find out whether the file declares shapes that nodes do not make."""
    found = cost(next(case for case in CASES if case.name == name))
    assert most.calls / 4 < found.calls < most.calls
    assert found.modules < most.modules
