"""Files are let go of when a model is done: what is open is counted, over many models in one process."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import surgeon
from surgeon.errors import SurgeonError
from tests.command_line import gelus, rule_file, with_data_file
from tests.model_samples import open_files

ROUNDS = 4

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux tells what a process has open")


def descriptors() -> int:
    """How many descriptors this process has."""
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def work(tmp_path: Path) -> Iterator[dict[str, Callable[[], Any]]]:
    """Things to do with models, by name; all that they return is kept, as by a user who collects reports."""
    plain, apart, kept = gelus(tmp_path), with_data_file(tmp_path / "apart"), []
    weights = onnx.load(plain)  # that cleanup looks into: the same data twice, and a sum of constants
    data = np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32)
    weights.graph.initializer.extend([numpy_helper.from_array(data, name) for name in ("one", "other")])
    weights.graph.node.add(op_type="MatMul", input=["one", "other"], output=["unread"])
    large = tmp_path / "large.onnx"
    onnx.save(weights, large)
    wrong = f"{rule_file(tmp_path)}:wrong"
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(plain.read_bytes()[:-7])
    short = with_data_file(tmp_path / "short")
    short.with_name("w.data").write_bytes(b"short")
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / "m.onnx"

    def keeping(function: Callable[..., Any], *given: Any, **named: Any) -> Callable[[], None]:
        def run() -> None:
            with suppress(SurgeonError):
                kept.append(function(*given, **named))

        return run

    yield {
        "proved": keeping(surgeon.rewrite, plain, "gelu", output=out),
        "in place": keeping(surgeon.rewrite, plain, "identity", output=plain, check="none"),
        "external data": keeping(surgeon.rewrite, apart, "ort", output=out, check="none", force=True),
        "external data inside": keeping(surgeon.rewrite, apart, "gelu", output=out, external_data="inline"),
        "weights looked into": keeping(surgeon.rewrite, large, "ort", output=out, check="none"),
        "rolled back": keeping(surgeon.rewrite, plain, wrong, output=out),
        "dry run": keeping(surgeon.rewrite, large, "ort", dry_run=True),
        "broken": keeping(surgeon.rewrite, broken, "gelu", output=out),
        "too short": keeping(surgeon.rewrite, short, "gelu", output=out),
        "missing": keeping(surgeon.rewrite, tmp_path / "none.onnx", "gelu", output=out),
        "no folder": keeping(surgeon.rewrite, plain, "gelu", output=tmp_path / "none" / "m.onnx", check="none"),
        "found": keeping(lambda: list(surgeon.find(apart, "gelu"))),
        "explained": keeping(surgeon.explain, large, "gelu"),
        "checked": keeping(surgeon.check, apart, load=False),
        "drawn": keeping(surgeon.draw, plain),
    }
    assert kept


def test_models_that_are_done_leave_no_file_open(work: dict[str, Callable[[], Any]], tmp_path: Path) -> None:
    """After each, and however it ended."""
    for name, run in work.items():
        run()
        assert (name, open_files(tmp_path)) == (name, [])


def test_many_models_need_no_more_descriptors_than_a_few(work: dict[str, Callable[[], Any]]) -> None:
    """Children are kept, and counted in the first rounds."""
    for run in work.values():
        run()
    work["proved"]()
    before = descriptors()
    for _ in range(ROUNDS):
        for run in work.values():
            run()
    assert descriptors() <= before
