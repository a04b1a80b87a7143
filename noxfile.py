"""The quick tests over versions of Python and of the libraries: `nox`, or `nox -p 3.12 -k oldest`.

`oldest` installs the lowest versions that pyproject.toml allows, `newest` whatever pip finds.  Neither has torch.  An
interpreter that is not on the machine is skipped, with a sentence.
"""

import re
import tomllib
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.error_on_missing_interpreters = False
nox.options.reuse_existing_virtualenvs = True

# What file, vocabulary, matching, rewriting, proof and console rest on, in half a minute of processor time.
QUICK = (
    "tests/test_external.py",
    "tests/test_records.py",
    "tests/test_binding.py",
    "tests/test_helper_names.py",
    "tests/test_composites.py",
    "tests/test_match.py",
    "tests/test_functions.py",
    "tests/test_catalogue.py",
    "tests/test_rewrite.py",
    "tests/test_site_proof.py",
    "tests/test_model_check.py",
    "tests/patterns/test_mish.py",
    "tests/patterns/test_clip.py",
    "tests/test_readme.py::test_first_command_prints_what_the_readme_shows",
    "tests/test_untrusted_folders.py",
)
NEEDED = ("pytest>=8", "hypothesis>=6.100")
# The first versions that there are for a Python where they are newer than those of pyproject.toml.
FIRST = {"3.13": {"numpy": "2.1"}}


def oldest(python: str) -> list[str]:
    """Every dependency at the lowest version that pyproject.toml allows, its last digits free."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    floors = dict(re.fullmatch(r"([\w-]+)>=([\d.]+)", item).groups() for item in project["dependencies"])
    return [f"{name}=={version}.*" for name, version in (floors | FIRST.get(python, {})).items()]


RELEASES = {"2.13": "2.13.0", "2.14": "2.14.1"}  # of torch; the second one comes with 5 GB of CUDA libraries


@nox.session(default=False)
@nox.parametrize("release", list(RELEASES))
def facts(session: nox.Session, release: str) -> None:
    """Write what the gate's tests know of exports of a release of torch."""
    session.install("--editable", ".", f"torch=={RELEASES[release]}", "onnxscript", "transformers==5.24.0")
    for name in (*(f"opset-{opset}" for opset in (18, 20, 23)), *(("torchscript",) if release == "2.13" else ())):
        how = ("--torchscript", "--opset", "17") if name == "torchscript" else ("--opset", name[-2:])
        made = f"tests/gate/facts/torch-{release}-{name}.json"
        session.run("python", "-m", "tests.gate", f"{session.create_tmp()}/{name}", *how, "--facts", made)


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
@nox.parametrize("versions", ["oldest", "newest"])
def quick(session: nox.Session, versions: str) -> None:
    """Run the quick tests."""
    if versions == "oldest" and session.python == "3.14":
        session.skip("onnxruntime 1.20 knows no Python 3.14.")
    session.install("--editable", ".", *NEEDED, *(oldest(session.python) if versions == "oldest" else ()))
    session.run("python", "-m", "pytest", *(session.posargs or QUICK))
