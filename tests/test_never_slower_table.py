"""The table of `--measure`: its models are well formed, and its verdicts can be missed."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from surgeon.runtime.timing.samples import Interval
from tests.bench_results import bench_of
from tests.benchmarks.never_slower import COLUMNS, MEASURED, Measurement, distinct, lines, verdict
from tests.benchmarks.never_slower_models import DECODE_LIMIT, LIMIT, ROWS, Row
from tests.real_models.catalogue import MODELS


@pytest.mark.parametrize("name", ROWS)
def test_models_say_where_they_come_from_and_which_shapes_they_run_at(name: str) -> None:
    """Each is exported or in the catalogue of real models; all its shapes are of the same dims."""
    row = ROWS[name]
    assert name in MODELS if not row.model else row.inputs
    assert row.at
    assert all(size > 0 for shape in row.at for size in shape.values())
    assert len({tuple(shape) for shape in row.at}) == 1
    assert not row.kind or [word.isdigit() for word in row.kind.split()] == [False, True, True]
    assert row.limit == (DECODE_LIMIT if name in ("gpt2", "llama") else LIMIT)
    assert sum(other.title == row.title for other in ROWS.values()) == 1


@pytest.mark.parametrize(
    ("ends", "limit", "word"),
    [
        ([(0.90, 0.95)], 1.01, "best"),
        ([(0.99, 1.009)], 1.01, "as good"),
        ([(1.0, 1.0)], 1.01, "as good"),
        ([(0.99, 1.02)], 1.03, "as good"),
        ([(0.99, 1.02)], 1.01, "MISSED: may be 1.020"),
        ([(1.001, 1.005)], 1.01, "MISSED: slower"),
        ([(0.90, 0.95), (1.02, 1.04)], 1.01, "MISSED: slower"),
        ([(0.0, inf)], 1.03, "MISSED: may be inf"),
    ],
)
def test_verdicts_look_at_both_ends_in_each_state(ends: list[tuple[float, float]], limit: float, word: str) -> None:
    found = [Interval(1.0, low, high, loads=12, milliseconds=1.0, reference_milliseconds=1.0) for low, high in ends]
    assert verdict(found, limit) == (word, not word.startswith("MISSED"))
    assert verdict(found, limit, is_busy=True) == ("UNDECIDED: busy", False)


@pytest.mark.parametrize(
    ("ours", "word"), [(7.0, "best"), (8.0, "as good"), (8.2, "MISSED: slower"), (None, "MISSED: no file")]
)
def test_lines_hold_ours_against_the_best_of_the_others(ours: float | None, word: str) -> None:
    """The best is the one with the lowest ratio; a contender without a file has no figure."""
    times = {"original": 10.0, "onnxslim": 8.0, "--rules ort": 9.0, **({MEASURED: ours} if ours else {})}
    found = bench_of({name: [time] * 12 for name, time in times.items()})
    run = Measurement({name: number for number, name in enumerate(times)}, found)
    ((line, fine),) = lines(Row("model", ({"batch": 1, "sequence": 16},)), run, run, [run.best(0)])
    cells = line.strip("| ").split(" | ")
    assert cells[:7] == ["model", "1 × 16", "10.00", "0.900", "—", "—", "—"]
    assert cells[7:9] == ["—", "0.800"]
    assert cells[-1] == word
    assert fine == (not word.startswith("MISSED"))
    assert len(cells) == len(COLUMNS) - 1
    assert ours is None or cells[-2].endswith(" onnxslim")


def test_equal_files_count_as_one(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("original", "rules", "measured")}
    for name, path in files.items():
        path.write_bytes(b"a" if name == "original" else b"b")
    assert distinct(files) == {**files, "measured": files["rules"]}
