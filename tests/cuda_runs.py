"""`python -m tests.cuda_runs`: what surgeon writes for a GPU, run there and held against the original on the CPU.

The models are those of `python -m tests.halves` that take up to 1.5 MB, and the exports of the attention table in
float16.  Each is rewritten with all rules for ONNX Runtime or for the standard, and converted, with and without these
rules.  With `--ep cpu` the same without a GPU, which tries this command and nothing else: there are no kernels.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import surgeon
from surgeon.errors import SurgeonError
from tests.attention import cases as attention
from tests.attention.exporting import export
from tests.halves.corpus import Sample, corpus
from tests.halves.judging import apart, fed

MAX_BYTES = 1.5e6  # bytes of a model
Make = Callable[[Path, Path, str], Any]


def _rewrite(target: str, upgrade: str) -> Make:
    return lambda source, to, ep: surgeon.rewrite(
        source, "ort", output=to, target=target, upgrade=upgrade, ep=ep, check="none"
    )


def _convert(dtype: str, rules: str = "") -> Make:
    return lambda source, to, ep: surgeon.convert(source, dtype, output=to, rules=rules or (), ep=ep, check="none")


KINDS: dict[str, tuple[float, Make]] = {
    "as it was": (1e-3, lambda source, to, _: to.write_bytes(source.read_bytes())),
    "--rules ort": (3e-3, _rewrite("ort", "none")),
    "--rules ort --target onnx --upgrade auto": (3e-3, _rewrite("onnx", "auto")),
    "--to float16": (0.02, _convert("float16")),
    "--to float16 --rules ort": (0.02, _convert("float16", "ort")),
    "--to bfloat16": (0.08, _convert("bfloat16")),
    "--to bfloat16 --rules ort": (0.08, _convert("bfloat16", "ort")),
}
"""What is made of a model, and the part of an output's scale by which it may move."""


def samples(each: int) -> Iterator[tuple[Sample, list[str]]]:
    """The models, one in so many of each group, and the kinds that suit them."""
    for group in ("architectures", "attention", "matrix"):
        yield from ((sample, list(KINDS)) for sample in corpus((group,), each=each))
    for case in [case for case in attention.table() if case.dtype == "fp16"][::each]:
        path = export(case).path
        if path is not None:
            yield Sample(case.name, "float16", path), list(KINDS)[:3]


def moved(source: Path, made: Path, provider: str) -> float | str | None:
    """How far a model's outputs on a provider lie from the original's on the CPU; why it is refused; None if untold."""
    import onnxruntime as ort

    for feeds in fed(source):
        try:
            wanted = ort.InferenceSession(str(source), _quiet(), ["CPUExecutionProvider"]).run(None, feeds)
        except Exception:  # noqa: BLE001  # other sizes may do
            continue
        if not any(array.size and array.dtype.kind == "f" and not np.isnan(array).all() for array in wanted):
            continue
        providers = [(provider, {"use_tf32": "0"} if provider.startswith("CUDA") else {})]
        if provider != "CPUExecutionProvider":
            providers.append(("CPUExecutionProvider", {}))
        try:
            found = ort.InferenceSession(str(made), _quiet(), providers).run(None, feeds)
        except Exception as error:  # noqa: BLE001  # whatever it raises is a refusal
            return f"{type(error).__name__}: {error}"[:300]
        return max(apart(one, two) for one, two in zip(wanted, found, strict=True))
    return None


def _quiet() -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return options


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cuda_runs", description=__doc__.partition("\n")[0])
    parser.add_argument("--ep", default="cuda", choices=("cuda", "cpu"), help="what runs the models")
    parser.add_argument("--each", type=int, default=3, metavar="N", help="one in N models of each group (default 3)")
    asked = parser.parse_args()
    provider = f"{asked.ep.upper()}ExecutionProvider"
    found: dict[str, Counter[str]] = defaultdict(Counter)
    farthest: dict[str, float] = defaultdict(float)
    pool = _pool()
    with TemporaryDirectory() as folder:
        to = Path(folder) / "made.onnx"
        for sample, kinds in samples(asked.each):
            if sample.path.stat().st_size > MAX_BYTES:
                continue
            for kind in kinds:
                near, make = KINDS[kind]
                to.unlink(missing_ok=True)
                try:
                    make(sample.path, to, asked.ep)
                    answer = pool.submit(moved, sample.path, to, provider).result()
                except SurgeonError as error:
                    answer = str(error)
                except BrokenProcessPool:
                    answer, pool = "its process ended", _pool()
                if answer is None:
                    continue
                message = "refused" if isinstance(answer, str) else "right" if answer <= near else "off by more"
                found[kind][message] += 1
                if isinstance(answer, float):
                    farthest[kind] = max(farthest[kind], answer)
                if message != "right":
                    print(f"  {sample.name}, {kind}: {answer}", file=sys.stderr, flush=True)
    print("| | models | right | refused | off by more | moved at most |\n|---|--:|--:|--:|--:|--:|")
    for kind, counts in found.items():
        row = " | ".join(str(counts[message]) for message in ("right", "refused", "off by more"))
        print(f"| {kind} | {counts.total()} | {row} | {farthest[kind]:.2g} |")
    return 0


def _pool() -> ProcessPoolExecutor:
    """One process, which a driver does not share with this one."""
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


if __name__ == "__main__":
    sys.exit(main())
