"""Real exports for the tests: what torch's two exporters write, beside the number of GELUs that torch ran.

A `Case` names one export: architecture, exporter, opset and dtype.  `export(case)` returns the file and the `Truth`,
which is counted on the torch side alone: forward hooks on the activation modules, and calls of
`torch.nn.functional.gelu` seen by a `TorchFunctionMode`.  The exported graph is never asked.  Exports are made in this
process, one at a time, and kept in `$XDG_CACHE_HOME/surgeon-exports` under a key made of the library versions and of
the source of the factory.

`python -m tests.exports --table` prints the sites found beside the modules that ran, for every case.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

KINDS = ("exact", "tanh", "quick")
RULES = {"exact": "gelu", "tanh": "gelu_tanh", "quick": "quick_gelu"}
NATIVE_SINCE = 20
"""The opset from which both exporters write aten::gelu as ai.onnx::Gelu."""

ARCHITECTURES = (
    "nn_gelu",
    "nn_gelu_tanh",
    "hand_quick",
    "functional",
    "all_kinds",
    "bert",
    "bert_python",
    "bert_new",
    "bert_fast",
    "bert_accurate",
    "bert_pytorch_tanh",
    "distilbert",
    "gpt2",
    "vit",
    "clip_text",
    "clip_vision",
)
OPSETS = {"ts": range(12, 21), "dynamo": range(18, 24)}
DTYPES = ("fp32", "fp16")

SAMPLE = (
    "nn_gelu-ts12-fp32",
    "nn_gelu-ts20-fp32",
    "nn_gelu-dynamo19-fp16",
    "nn_gelu_tanh-ts14-fp32",
    "nn_gelu_tanh-dynamo23-fp32",
    "hand_quick-ts13-fp16",
    "functional-dynamo22-fp32",
    "all_kinds-ts16-fp32",
    "all_kinds-dynamo18-fp32",
    "all_kinds-dynamo21-fp16",
    "bert-ts17-fp16",
    "bert-dynamo18-fp32",
    "bert_python-ts13-fp32",
    "bert_new-ts18-fp32",
    "bert_fast-ts14-fp16",
    "bert_accurate-ts15-fp32",
    "bert_pytorch_tanh-ts19-fp32",
    "distilbert-ts14-fp32",
    "gpt2-dynamo20-fp16",
    "vit-ts17-fp32",
    "clip_text-ts14-fp16",
    "clip_vision-ts12-fp32",
)
"""The cases that run by default: each architecture, exporter and dtype, and each opset, at least once."""


@dataclass(frozen=True)
class Case:
    """One export: `arch` of ARCHITECTURES, `exporter` "ts" or "dynamo", ONNX `opset`, `dtype` "fp32" or "fp16"."""

    arch: str
    exporter: str
    opset: int
    dtype: str

    @property
    def name(self) -> str:
        """For instance `bert-dynamo18-fp16`."""
        return f"{self.arch}-{self.exporter}{self.opset}-{self.dtype}"


@dataclass(frozen=True)
class Truth:
    """What torch ran in one forward pass: GELUs per kind, and how many of them were one call of aten::gelu."""

    ran: dict[str, int]
    aten: dict[str, int]

    def native(self, opset: int) -> dict[str, int]:
        """GELUs that the exporter writes as one ai.onnx::Gelu at this opset, per kind."""
        return {kind: self.aten[kind] if opset >= NATIVE_SINCE else 0 for kind in KINDS}

    def sites(self, opset: int) -> dict[str, int]:
        """GELUs that must be found decomposed at this opset, per kind."""
        return {kind: self.ran[kind] - self.native(opset)[kind] for kind in KINDS}


def cases() -> tuple[Case, ...]:
    """Every combination of architecture, exporter, opset and dtype."""
    return tuple(
        Case(arch, exporter, opset, dtype)
        for arch in ARCHITECTURES
        for exporter, opsets in OPSETS.items()
        for opset in opsets
        for dtype in DTYPES
    )


def sample() -> tuple[Case, ...]:
    """The cases of SAMPLE, in its order."""
    by_name = {case.name: case for case in cases()}
    return tuple(by_name[name] for name in SAMPLE)


def export(case: Case) -> tuple[Path, Truth]:
    """The exported file and what torch ran; made on first use, then taken from the cache."""
    folder = cache_folder()
    path, truth_path = folder / f"{case.name}.onnx", folder / f"{case.name}.json"
    if not (path.exists() and truth_path.exists()):
        from tests import torch_models  # torch and transformers load only when an export is missing

        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f".{os.getpid()}-{path.name}"
        truth = Truth(*torch_models.count(case.arch, case.dtype))
        torch_models.export(case.arch, case.exporter, case.opset, case.dtype, partial)
        truth_path.write_text(json.dumps(asdict(truth)))
        partial.replace(path)
    return path, Truth(**json.loads(truth_path.read_text()))


def cache_base() -> Path:
    """Where all that takes long to make is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "surgeon-exports"


@cache
def cache_folder() -> Path:
    """Where exports are kept: one folder for each set of library versions and each version of the factory."""
    versions = [f"{name}{metadata.version(name)}" for name in ("torch", "transformers", "onnx", "onnxscript")]
    source = (Path(__file__).parent / "torch_models.py").read_bytes()
    return cache_base() / "-".join([*versions, hashlib.sha256(source).hexdigest()[:8]])


def table(chosen: tuple[Case, ...]) -> Iterator[str]:
    """Markdown rows: GELUs that torch ran, those the exporter fused itself, sites that surgeon found, outcome."""
    import surgeon

    output = cache_folder() / ".rewritten.onnx"
    yield "| export | ran | native | found | outcome |"
    yield "|---|---|---|---|---|"
    wrong = 0
    for case in chosen:
        path, truth = export(case)
        _, report = surgeon.rewrite(path, "gelu", output=output)
        rules = Counter(site.rule for site in report.sites)
        found = {kind: rules[rule] for kind, rule in RULES.items()}
        good = found == truth.sites(case.opset)
        wrong += not good
        cells = (_cell(truth.ran), _cell(truth.native(case.opset)), _cell(found) + ("" if good else " WRONG"))
        yield f"| {case.name} | {' | '.join(cells)} | {report.outcome} |"
    output.unlink(missing_ok=True)
    yield f"\n{len(chosen)} exports, {wrong} wrong"


def _cell(counts: dict[str, int]) -> str:
    return ", ".join(f"{n} {kind}" for kind, n in counts.items() if n) or "0"


def main() -> int:
    """Command line: make exports, or compare the sites found with the modules that ran."""
    parser = argparse.ArgumentParser(prog="python -m tests.exports", description=main.__doc__)
    parser.add_argument("--table", action="store_true", help="rewrite each export and print found beside ran")
    parser.add_argument("--sample", action="store_true", help="the default sample instead of every case")
    parser.add_argument("--match", default="", help="only the cases whose name contains this")
    options = parser.parse_args()
    chosen = tuple(case for case in (sample() if options.sample else cases()) if options.match in case.name)
    wrong = False
    for line in table(chosen) if options.table else (f"{case.name}: {export(case)[0]}" for case in chosen):
        print(line, flush=True)
        wrong |= " WRONG" in line
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
