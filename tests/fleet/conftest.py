"""Tests share the processes that fleets keep: pytest tells each test apart in the environment, which would end them."""

import os

import pytest

from surgeon.automation.fleet.execution import model_process
from tests.fleet import zoo


@pytest.fixture(autouse=True)
def one_environment(monkeypatch):
    """The environment without what pytest puts there."""

    def environment():
        return frozenset(item for item in os.environ.items() if item[0] != "PYTEST_CURRENT_TEST")

    monkeypatch.setattr(model_process, "_environment", environment)


@pytest.fixture
def models(tmp_path):
    """Three small models that are right."""
    for name in "abc":
        zoo.gelus(tmp_path / "zoo" / f"{name}.onnx")
    (tmp_path / "r.toml").write_text('[[step]]\nrules = "gelu"\n', encoding="utf-8")
    return tmp_path
