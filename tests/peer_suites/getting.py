"""The tests and models of a suite: unpacked from the package index or in a checkout, run once and kept.

Everything is kept in a folder under the user's cache; nothing of it is run by the default tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tests.peer_suites.catalogue import Suite
from tests.real_models.getting import last_line

HERE = Path(__file__).parent
INDEX = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
JSON = "application/vnd.pypi.simple.v1+json"
TEST_TIMEOUT = 3600  # seconds that one project's tests may take
MOST_CRASHES = 40  # tests that may end their process, each by a fault of the peer


class CannotGet(Exception):
    """The tests of a suite cannot be run here; says why in one sentence."""


@dataclass(frozen=True)
class Captured:
    """One model of a suite.  after: what the peer made of it; None where ONNX Runtime is the peer."""

    test: str
    before: Path
    after: Path | None


def cache() -> Path:
    """The folder in which suites are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "surgeon-peer-suites"


def captured(name: str, suite: Suite, checkout: Path | None) -> list[Captured]:
    """The models of a suite.  Raises CannotGet."""
    if checkout is None and not suite.in_sdist:
        raise CannotGet("no package brings its tests; name a checkout with --source")
    root = checkout or _sdist(suite.requirement)
    if suite.models:
        found = sorted(path for pattern in suite.models for path in root.glob(pattern))
        return [Captured(str(path.relative_to(root)), path, None) for path in found]
    folder = cache() / "captured" / f"{name}-{suite.requirement.partition('==')[2] or 'checkout'}"
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        _run(suite, root, folder)
        (folder / "done").touch()
    lines = (folder / "captured.jsonl").read_text().splitlines()
    return [
        Captured(item["test"], folder / f"{item['number']}-before.onnx", folder / f"{item['number']}-after.onnx")
        for item in map(json.loads, lines)
    ]


def _run(suite: Suite, root: Path, folder: Path) -> None:
    """Run the tests with the plugin; what fails there (a missing library, a changed release) is in tests.txt."""
    files = sorted(str(path.relative_to(root)) for pattern in suite.tests for path in root.glob(pattern))
    if not files:
        raise CannotGet(f"{root} holds no {suite.tests[0]}")
    folders = [str(root)] if suite.on_path else sorted({str((root / file).parent) for file in files})
    paths = [str(HERE / "plugin"), *_installed(suite), *folders]
    if suite.is_copied:
        files = [str(shutil.copy(root / file, folder)) for file in files]
    places = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    environment = {**os.environ, "PYTHONPATH": places, "PYTHONSAFEPATH": "1", "SUITE_CAPTURE": str(folder)}
    options = ("-q", "-p", "suite_capture", "-p", "no:cacheprovider", "-o", "addopts=")
    command = (sys.executable, "-m", "pytest", *options, "--continue-on-collection-errors", *files)
    with (folder / "tests.txt").open("w") as log:
        for _ in range(MOST_CRASHES):
            try:
                ran = subprocess.run(
                    command, cwd=root, env=environment, stdout=log, stderr=log, check=False, timeout=TEST_TIMEOUT
                )
            except subprocess.TimeoutExpired as error:
                raise CannotGet(f"its tests took longer than {TEST_TIMEOUT} s; run again to go on") from error
            if ran.returncode >= 0:
                break
    if not (folder / "captured.jsonl").exists():
        raise CannotGet(f"its tests gave no model to an optimizer (exit code {ran.returncode}, see {log.name})")


def _installed(suite: Suite) -> list[str]:
    """Folders that hold the peer and what its tests need, without touching this environment."""
    found = []
    for requirement in filter(None, (suite.requirement, *suite.needs)):
        folder = cache() / "installed" / requirement.replace("==", "-")
        if not folder.exists():
            command = (sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), requirement)
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            if ran.returncode:
                raise CannotGet(f"{requirement} cannot be installed ({last_line(ran.stderr)})")
        found.append(str(folder))
    return found


def _sdist(requirement: str) -> Path:
    """The unpacked source of a release.  pip would build it first, which these tests do not need."""
    package, _, version = requirement.partition("==")
    root = cache() / "sources" / f"{package}-{version}"
    if root.exists():
        return root
    root.parent.mkdir(parents=True, exist_ok=True)
    try:
        request = urllib.request.Request(f"{INDEX}/{package}/", headers={"Accept": JSON})
        with urllib.request.urlopen(request, timeout=60) as answer:
            files = {item["filename"]: item["url"] for item in json.load(answer)["files"]}
        archive = root.parent / f"{package}-{version}.tar.gz"
        with urllib.request.urlopen(files[archive.name], timeout=600) as answer:
            archive.write_bytes(answer.read())
    except (OSError, KeyError, ValueError) as error:
        raise CannotGet(f"the source of {requirement} cannot be downloaded ({error})") from error
    with tarfile.open(archive) as packed:
        packed.extractall(root.parent, filter="data")
    archive.unlink()
    return root
