"""Options of the test run, how Hypothesis runs, and the real exports as a fixture."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from surgeon.authoring import testing
from surgeon.ops.plugins import plugin_declaration
from surgeon.ops.traits import trait_lookup
from surgeon.runtime.implementations import implementation
from tests import exports, sampling, translations

if TYPE_CHECKING:
    from collections.abc import Iterator

# Hundreds of processes import the tests or the package: without bytecode each would compile all of it anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Several processes run tests at once: the threads of torch and OpenBLAS would wait busily for each other.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

LONGEST = (  # of the files, with more than 15 s of processor time: they run first, so that none is left over at the end
    "test_documentation.py",
    "test_mutation.py",
    "integrations/test_transformers_export.py",
    "test_attention_matrix.py",
    "test_architectures.py",
    "gate/test_gate.py",
    "fleet/test_local.py",
    "test_inputs.py",
    "test_grid_sampling.py",
    "test_equal_regions.py",
    "test_onnxscript_shipped_sets.py",
    "test_matrix.py",
    "halves/test_sample.py",
    "gate/test_action.py",
    "fleet/test_dask.py",
    "edits/test_cuts_everywhere.py",
    "edits/test_detectors.py",
    "decoders/test_exported_decoders.py",
    "test_environment.py",
    "edits/test_ends.py",
    "test_pages.py",
    "edits/test_sizes.py",
    "edits/test_batches.py",
    "test_group_termination.py",
    "test_planted_numbers.py",
)

# How long an example takes, or how long it takes to make, tells of the machine and of what else runs on it.
UNHURRIED = hypothesis.settings(
    deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], print_blob=True
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--whole` takes every case of every matrix in place of its sample."""
    parser.addoption("--whole", action="store_true", help="test all exports and forms, not the samples (hours)")


def pytest_configure(config: pytest.Config) -> None:
    """Modules of tests ask for the cases when they are imported."""
    config.option.loadscopereorder = False  # xdist would begin with the files of the most tests
    sampling.take_whole(config.getoption("whole"))
    hypothesis.settings.register_profile("unhurried", UNHURRIED, max_examples=sampling.examples(100))
    hypothesis.settings.load_profile("unhurried")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without a look for garbage at each step: nearly all that is imported and collected stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases of a `test_fires` one in five is proved by default; the others are matched and written alone.

    A test that looks at the proof itself has another name.  The longest files come first.
    """
    ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))
    for item in items if not sampling.is_whole() else ():
        call = getattr(item, "callspec", None)
        case = call.params.get("case") if call is not None else None
        is_of_table = getattr(item, "originalname", "") == "test_fires" and isinstance(case, testing.Case)
        if is_of_table and case.check and call.indices["case"] % 5:
            call.params["case"] = replace(case, check=False)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `real_export` runs once for each chosen case."""
    if "real_export" in metafunc.fixturenames:
        chosen = sampling.chosen(exports.sample, exports.cases)
        metafunc.parametrize("real_export", chosen, indirect=True, scope="module", ids=lambda case: case.name)


@pytest.fixture(scope="module")
def real_export(request: pytest.FixtureRequest) -> tuple[exports.Case, Path, exports.Truth]:
    """One real export: its case, the file, and what torch ran."""
    path, truth = exports.export(request.param)
    return request.param, path, truth


@pytest.fixture(scope="session", autouse=True)
def translations_read_once() -> Iterator[None]:
    """Half of what a small export takes is spared to all but the first of a process."""
    with pytest.MonkeyPatch.context() as patch:
        translations.read_once(patch)
        yield


@pytest.fixture(scope="module", autouse=True)
def loaded_stays() -> None:
    """What is loaded by now stays: who collects garbage, as each bench does, need not look through torch for it."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def forget_implementations(monkeypatch):
    """What a test registers or declares is forgotten after it, and what others did is not there meanwhile."""
    monkeypatch.setattr(plugin_declaration, "_own", {})
    monkeypatch.setattr(trait_lookup, "_declared", {})
    before = dict(implementation.available())
    implementation._registered.clear()
    yield
    implementation._registered.clear()
    implementation._registered.update(before)
