"""The table of cuts and merges: what it calls right is right, and a wrong result is told from it."""

import numpy as np
import onnx
import pytest

from tests.edits import corpus, table


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    """The corpus without exports and large files."""
    monkeypatch.setattr(corpus, "chosen", lambda short: [])
    return [*corpus.cuts(tmp_path / "cuts", short=True)], [*corpus.merges(tmp_path / "merges", short=True)]


def test_surgeon_does_all_that_is_small(tasks, tmp_path):
    for kind, some in zip(("cuts", "merges"), tasks, strict=True):
        wanted = [table.expected(task) for task in some]
        cells = list(table.run("surgeon-no-check", some, wanted, tmp_path / "out", ""))
        assert [(cell.why, cell.right) for cell in cells] == [("", "")] * len(some)
        assert all(cell.bytes for cell in cells)
        message = "\n".join(table.lines(kind, some, {"surgeon-no-check": cells}))
        row = [*counts(some), len(some), len(some)]
        assert f"| surgeon-no-check | {' | '.join(map(str, row))} |" in message


def counts(tasks):
    groups = dict.fromkeys(task.group for task in tasks)
    return [sum(task.group == group for task in tasks) for group in groups]


def test_what_a_tool_cannot_is_reported_with_its_reason(tasks, tmp_path):
    some = [task for task in tasks[1] if task.group == "opsets"]
    wanted = [table.expected(task) for task in some]
    cells = list(table.run("onnx", some, wanted, tmp_path / "out", ""))
    assert all("operator set" in cell.why for cell in cells)


def test_a_wrong_result_is_not_right(tasks, tmp_path):
    task = next(task for task in tasks[0] if task.name == "if: to its result")
    wanted, path = table.expected(task), tmp_path / "made.onnx"
    assert table.wrong(task, path, wanted) == "nothing is written"
    onnx.save(onnx.load(task.source), path)
    assert table.wrong(task, path, wanted).startswith("it goes from")
    made = onnx.load(task.source)
    del made.graph.output[:]
    made.graph.output.add(name="e")
    onnx.save(made, path)
    assert table.wrong(task, path, wanted) == ""
    made.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.ones(4, np.float32), "w"))
    onnx.save(made, path)
    assert table.wrong(task, path, wanted) == "e is another"
