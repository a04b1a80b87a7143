"""Which projects' tests are run, where they come from, and what else they need: data alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Suite:
    """Tests of one project.

    requirement: the peer as pip knows it, installed beside this environment for the tests; its sdist brings them if
        `in_sdist`, otherwise they are in a checkout that the caller names.
    tests: the test files, as patterns below the root of the source.
    models: files of models below the root, for tests in another language; ONNX Runtime optimizes them as it loads.
    """

    requirement: str = ""
    tests: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    in_sdist: bool = False
    needs: tuple[str, ...] = ()
    on_path: bool = False  # the tests import the source itself
    is_copied: bool = False  # the tests run outside of the source, which lacks the compiled part of the package


_SIMPLIFIER = ("python_api", "eliminate", "formal_verify", "fuse", "constant_fold")
_SLIM = ("coverage", "elimination", "folding", "fusion", "issue", "onnx_nets", "pattern", "regressions", "shape")
_RULES = "onnxscript/rewriter"
_ORT = "onnxruntime/test"
_FUSIONS = ("*fusion*", "optimizer", "conformer", "phi_vision", "constant_fold")

SUITES = {
    "onnxoptimizer": Suite("onnxoptimizer==0.4.2", ("onnxoptimizer/test/*test*.py",), is_copied=True),
    "onnxslim": Suite(
        "onnxslim==0.1.98", tuple(f"tests/test_*{name}*.py" for name in _SLIM), in_sdist=True, on_path=True
    ),
    "onnxsim": Suite("onnxsim==0.8.1", tuple(f"tests/test_{name}*.py" for name in _SIMPLIFIER), in_sdist=True),
    "onnxscript-rules": Suite(
        tests=(f"{_RULES}/rules/**/*_test.py", f"{_RULES}/*_test.py", "onnxscript/optimizer/*_test.py"),
        needs=("parameterized",),
        on_path=True,
    ),
    "onnxscript-ort": Suite(
        tests=(f"{_RULES}/ort_fusions/*_test.py",), needs=("parameterized",), on_path=True
    ),
    "onnxruntime-transformers": Suite(
        tests=tuple(f"{_ORT}/python/transformers/test_{name}.py" for name in _FUSIONS), needs=("parameterized",)
    ),
    "onnxruntime": Suite(models=(f"{_ORT}/testdata/transform/**/*.onnx",)),
    "graphsurgeon": Suite(tests=("tools/onnx-graphsurgeon/tests/**/test_*.py",)),
}
"""What a caller may name a checkout for is the name up to the first hyphen."""


def source_of(name: str) -> str:
    """The project whose source a suite is in."""
    return name.partition("-")[0]
