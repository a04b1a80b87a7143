"""Tests share the processes that fleets keep: pytest tells each test apart in the environment, which would end them."""

import os

import pytest

from surgeon.automation.fleet.execution import model_process


@pytest.fixture(autouse=True)
def one_environment(monkeypatch):
    """The environment without what pytest puts there."""

    def environment():
        return frozenset(item for item in os.environ.items() if item[0] != "PYTEST_CURRENT_TEST")

    monkeypatch.setattr(model_process, "_environment", environment)
