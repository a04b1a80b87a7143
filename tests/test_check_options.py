"""Options of the check that mean nothing: refused in one sentence, before anything runs."""

import math
from pathlib import Path
from typing import Any

import pytest

from surgeon.errors import UsageError
from surgeon.proof.check_result import Outcome
from surgeon.proof.model.model_check import require_options
from tests.models import check_model
from tests.test_model_check import body


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rtol": -1e-3}, "Invalid rtol -0.001. Give a finite number of at least 0."),
        ({"atol": math.nan}, "Invalid atol nan. Give a finite number of at least 0."),
        ({"rtol": math.inf}, "Invalid rtol inf. Give a finite number of at least 0."),
        ({"seed": -1}, "Invalid seed -1. Give an integer of at least 0."),
        ({"dims": {"b": -2}}, "The dim 'b' has the size -2. Give an integer of at least 0."),
        ({"custom_ops": ["none.so"]}, "Custom-op library not found: none.so"),
        (
            {"custom_ops": ["none.py"]},
            "Implementation file not found: none.py",
        ),
        ({"inputs": ["none.npz"]}, "No inputs found at none.npz. Give an .npz file or a folder of .npz files."),
        (
            {"inputs": ["."], "dims": {"b": 1}},
            "--inputs and --dim cannot be combined, because the input data already has sizes.",
        ),
        ({"custom_ops": ["."]}, "Custom-op library not found: ."),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    """In one sentence, before either model is opened."""
    with pytest.raises(UsageError) as refused:
        check_model(Path("absent.onnx"), Path("absent.onnx"), body("y = Relu(x)"), **options)
    assert str(refused.value) == message


def test_a_library_that_cannot_be_loaded_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never unproved: the user has named it.  A bare name is a file in the current folder."""
    (tmp_path / "ops.so").write_text("no library")
    monkeypatch.chdir(tmp_path)
    model = body("y = Relu(x)")
    for name in ("ops.so", tmp_path / "ops.so"):
        with pytest.raises(
            UsageError, match=r"^Custom-op library .*ops\.so cannot be loaded \(.*\)\. Use one"
        ) as raised:
            check_model(model, model, model, custom_ops=[name])
        assert "\n" not in str(raised.value)


def test_python_files_are_among_the_options(tmp_path: Path) -> None:
    """They are run before anything else is, and one that cannot be run is refused whatever the models hold."""
    path, model = tmp_path / "ops.py", body("y = Relu(x)")
    path.write_text("import surgeon\nsurgeon.implements('a.b::Op')(lambda x: x)")
    assert require_options(0, {}, [path], rtol=None, atol=None) == [str(path)]
    assert check_model(model, model, model, custom_ops=[path]).outcome is Outcome.PROVED
    path.write_text("raise RuntimeError('no')")
    with pytest.raises(UsageError, match=r"^Implementation file .* raised an error: RuntimeError: no$"):
        check_model(model, model, model, custom_ops=[path])
