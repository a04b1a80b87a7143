"""What surgeon makes of a model, held against what the peer made of it: `python -m tests.peer_suites.judging FILE`.

Each model is judged in a child process, which writes a line for each, so that a kernel that ends the process costs one
model.  Whether two models compute the same is asked of ONNX Runtime alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx
import onnxruntime

import surgeon
from surgeon.errors import RewriteError, RuleError, SurgeonError
from tests.peer_suites import equality
from tests.peer_suites.getting import Captured

MODEL_TIMEOUT = 400  # seconds for one model
KINDS = {
    "Attention": "attention",
    "MultiHeadAttention": "attention",
    "GroupQueryAttention": "attention",
    "PackedAttention": "attention",
    "DecoderMaskedMultiHeadAttention": "attention",
    "Gelu": "gelu",
    "FastGelu": "gelu",
    "BiasGelu": "gelu",
    "QuickGelu": "gelu",
    "LayerNormalization": "norm",
    "SkipLayerNormalization": "norm",
    "EmbedLayerNormalization": "norm",
    "SimplifiedLayerNormalization": "rms norm",
    "RMSNormalization": "rms norm",
    "SkipSimplifiedLayerNormalization": "rms norm",
    "RotaryEmbedding": "rotary",
    "GroupNorm": "group norm",
    "SkipGroupNorm": "group norm",
    "GroupNormalization": "group norm",
}
"""Ops that stand for many nodes, by what they compute."""


@dataclass(frozen=True)
class Verdict:
    """outcome: "equal" (or better than the peer), "approximate" (equal with `--approximate`), "identity", "worse",
    "peer is wrong", "refused", "stopped" (by an error of one rule), "crashed" or "wrong".  unverified: ONNX Runtime
    does not run the original.  text: why.
    """

    test: str
    outcome: str
    nodes: tuple[int, int, int] = (0, 0, 0)  # of the original, of surgeon's result, and of the peer's
    unverified: bool = False
    text: str = ""


def judged(models: Sequence[Captured]) -> list[Verdict]:
    """A verdict for each model, in their order."""
    found: list[Verdict] = []
    while len(found) < len(models):
        with tempfile.TemporaryDirectory() as folder:
            tasks, answers = Path(folder, "tasks.json"), Path(folder, "answers.jsonl")
            rest = models[len(found) :]
            tasks.write_text(json.dumps([(one.test, str(one.before), str(one.after or "")) for one in rest]))
            answers.touch()
            command = (sys.executable, "-m", "tests.peer_suites.judging", str(tasks), str(answers))
            code = _watch(subprocess.Popen(command, stderr=subprocess.DEVNULL), answers)
            lines = answers.read_text().splitlines()
            found += [Verdict(**json.loads(line)) for line in lines]
            if len(lines) < len(rest):
                found.append(Verdict(rest[len(lines)].test, "crashed", text=f"exit code {code}"))
    return found


def _watch(process: subprocess.Popen[bytes], answers: Path) -> int:
    """Wait for a child as long as it goes on writing answers."""
    size = -1
    while True:
        try:
            return process.wait(MODEL_TIMEOUT)
        except subprocess.TimeoutExpired:
            if answers.stat().st_size == size:
                process.kill()
                return process.wait()
            size = answers.stat().st_size


def judge(test: str, before: Path, after: Path | None) -> Verdict:
    """Rewrite one model and compare."""
    original = onnx.load(before)
    peer = onnx.load(after) if after else optimized_by_ort(before)
    try:
        made, _ = surgeon.rewrite(original, "ort", keep_going=True)
    except SurgeonError as error:
        outcome = "stopped" if isinstance(error, RuleError | RewriteError) else "refused"
        return Verdict(test, outcome, text=f"{type(error).__name__}: {error}"[:300])
    is_run = equality.has_plain_inputs(original) and equality.runs(original)
    fault = equality.difference(original, made) if is_run else ""
    counts = (nodes(original), nodes(made), nodes(peer) if peer else 0)
    if fault:
        return Verdict(test, "wrong", counts, text=fault[:300])
    if peer is None:
        return Verdict(test, "equal", counts, not is_run, "ONNX Runtime does not load the original")
    outcome = held(original, made, peer)
    if outcome != "equal" and is_run and equality.difference(original, peer):
        outcome = "peer is wrong"
    if outcome == "worse":
        other, _ = surgeon.rewrite(original, "ort", keep_going=True, approximate=True)
        if held(original, other, peer) == "equal" and not (is_run and equality.difference(original, other)):
            outcome = "approximate"
    return Verdict(test, outcome, counts, not is_run, difference(made, peer) if outcome == "worse" else "")


def held(original: onnx.ModelProto, made: onnx.ModelProto, peer: onnx.ModelProto) -> str:
    """How a result stands beside the peer's: by nodes, or by the ops that stand for many."""
    if nodes(made) <= nodes(peer):
        return "equal"
    first, ours, theirs = (kinds(model) for model in (original, made, peer))
    if theirs - first and not theirs - ours:
        return "equal"
    return "identity" if nodes(made) - ops(made)["Identity"] <= nodes(peer) - ops(peer)["Identity"] else "worse"


def optimized_by_ort(path: Path) -> onnx.ModelProto | None:
    """The file after ONNX Runtime's fusions for the CPU; None where it does not load it."""
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(Path(folder, "optimized.onnx"))
        options.log_severity_level = 4
        try:
            onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception:  # noqa: BLE001 - its errors have no common base
            return None
        return onnx.load(options.optimized_model_filepath)


def ops(model: onnx.ModelProto) -> Counter[str]:
    """How often each op is there, bodies and functions included; stored tensors are no ops."""
    found: Counter[str] = Counter()
    todo = [list(model.graph.node), *(list(function.node) for function in model.functions)]
    while todo:
        for node in todo.pop():
            found[node.op_type] += node.op_type != "Constant"
            todo += [list(item.g.node) for item in node.attribute if item.HasField("g")]
            todo += [list(graph.node) for item in node.attribute for graph in item.graphs]
    return +found


def nodes(model: onnx.ModelProto) -> int:
    return sum(ops(model).values())


def kinds(model: onnx.ModelProto) -> Counter[str]:
    """How often each computation of many nodes is one op."""
    found: Counter[str] = Counter()
    for name, count in ops(model).items():
        if name in KINDS:
            found[KINDS[name]] += count
    return found


def difference(made: onnx.ModelProto, peer: onnx.ModelProto) -> str:
    """The ops that surgeon's result has more of, and those that the peer's has more of."""
    ours, theirs = ops(made) - ops(peer), ops(peer) - ops(made)
    words = [" ".join(f"{count} {name}" for name, count in sorted(found.items())) for found in (ours, theirs)]
    return f"{words[0] or 'nothing'} for {words[1] or 'nothing'}"[:300]


def main(tasks: Path, answers: Path) -> int:
    """Judge the models of a list and write a line for each."""
    with answers.open("a") as file:
        for test, before, after in json.loads(tasks.read_text()):
            verdict = judge(test, Path(before), Path(after) if after else None)
            file.write(json.dumps(asdict(verdict)) + "\n")
            file.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
