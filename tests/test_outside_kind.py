"""A kind of model of another package goes in and comes out, without a change of the engine."""

import importlib

import pytest

import surgeon
from surgeon.errors import UsageError
from surgeon.testing import parse
from tests.outside.boxed_model import Box

GELU = """(float[n, 4] x) => (float[n, 4] y) <float r = {1.4142135}, float one = {1.0}, float half = {0.5}> {
    d = Div(x, r) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half) }"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package whose entry point names a kind, for a module that is imported or is not."""

    def install(value, package="tests.outside.boxed_model"):
        info = tmp_path / "site" / "boxes-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: boxes\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[surgeon.kinds]\n{package} = {value}\n")
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        importlib.invalidate_caches()

    return install


@pytest.fixture
def box():
    return Box(parse(GELU).SerializeToString())


def test_a_kind_of_another_package(install, box, tmp_path):
    with pytest.raises(UsageError, match="Invalid model of type Box"):
        surgeon.inspect(box)
    install("tests.outside.boxed_model:KIND")
    made, report = surgeon.rewrite(box, "gelu")
    assert type(made) is Box
    assert report.outcome == "proved"
    assert surgeon.inspect(made).nodes == 1
    assert surgeon.rewrite(made, "gelu")[0] is made
    assert surgeon.compare(box, made).outcome.value == "proved"
    assert surgeon.rewrite(box, "gelu", output=tmp_path / "out.onnx")[0] == tmp_path / "out.onnx"
    with pytest.raises(UsageError, match="or a Box"):
        surgeon.inspect(3)


def test_a_kind_whose_package_is_not_imported_is_not_loaded(install, box):
    install("tests.outside.nothing:KIND", package="no_such_package")
    with pytest.raises(UsageError, match="The kind of models 'no_such_package' .* cannot be loaded"):
        surgeon.inspect(box)  # the message lists all kinds
    assert surgeon.rewrite(parse(GELU), "gelu")[1].proved


def test_a_kind_that_is_none(install, box):
    install("tests.outside.boxed_model:Box")
    with pytest.raises(UsageError, match=r"tests.outside.boxed_model:Box is not a surgeon.file.kinds.Kind"):
        surgeon.inspect(box)
