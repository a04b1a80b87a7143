"""What is done to a model, and what is asked of the result."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import onnx

import surgeon
from surgeon import edits
from surgeon.errors import SurgeonError
from surgeon.patterns import GROUPS
from tests.fuzz.judging import Verdict, compare

TARGETS = ("ort", "onnx", "contrib", "decomposed", "tensorrt")
NEWEST = 23


@dataclass(frozen=True)
class Finding:
    """Something that should not be.  kind: "wrong", "does not load", "does not run", "rolled back" or "a defect"."""

    kind: str
    job: str
    text: str


@dataclass
class Trial:
    """One model with its random numbers.  done: what was done to it, counted."""

    model: onnx.ModelProto
    random: random.Random
    done: Counter[str] = field(default_factory=Counter)

    def copy(self) -> onnx.ModelProto:
        made = onnx.ModelProto()
        made.CopyFrom(self.model)
        return made


Job = Callable[[Trial], Iterator[Finding]]


def rewritten(trial: Trial) -> Iterator[Finding]:
    """A group of rules for a target."""
    group, target = trial.random.choice(sorted(GROUPS)), trial.random.choice(TARGETS)
    check = trial.random.choices(["sites", "none", "both"], [5, 2, 1])[0]
    upgrade = trial.random.choice(["none", "auto"])
    job = f"rewrite --rules {group} --target {target} --check {check} --upgrade {upgrade}"
    made, report = surgeon.rewrite(trial.copy(), group, target=target, check=check, upgrade=upgrade)
    trial.done["sites rewritten"] += sum(report.counts.values())
    if report.outcome == "failed":
        yield Finding("rolled back", job, "; ".join(str(report).splitlines()[:12]))
    if target == "tensorrt" and any(opset.domain.startswith("trt") for opset in made.opset_import):
        return  # plugins of TensorRT, which ONNX Runtime has no kernels for
    yield from _judged(job, compare(trial.model, made), strict=target == "ort")


def converted(trial: Trial) -> Iterator[Finding]:
    """Half precision, and back."""
    made, _ = surgeon.convert(trial.copy(), "float16")
    yield from _judged("convert --to float16", compare(trial.model, made, half=True))


def upgraded(trial: Trial) -> Iterator[Finding]:
    """A newer opset."""
    now = next(item.version for item in trial.model.opset_import if item.domain in ("", "ai.onnx"))
    opset = trial.random.randint(min(now + 1, NEWEST), NEWEST)
    made, report = surgeon.edit(trial.copy(), edits.RaiseOpset(opset))
    yield from _judged(f"edit --opset {opset}", compare(trial.model, made))


def renamed(trial: Trial) -> Iterator[Finding]:
    """Another name of an input or an output."""
    graph = trial.model.graph
    old = trial.random.choice([*graph.input, *graph.output]).name
    made, report = surgeon.edit(trial.copy(), [edits.Rename(old, "another"), edits.StripDoc()])
    yield from _judged(f"edit --rename {old}=another", compare(trial.model, made, {old: "another"}))


def sized(trial: Trial) -> Iterator[Finding]:
    """A symbolic size of a fixed number, at which the result has to compute the same."""
    dims = {dim.dim_param for value in trial.model.graph.input for dim in value.type.tensor_type.shape.dim}
    name = trial.random.choice(sorted(dims - {""}) or [""])
    if name not in ("n", "m"):
        return
    size = {"n": 2, "m": 5}[name]
    made, report = surgeon.edit(trial.copy(), edits.Dim(name, size))
    fixed = trial.copy()
    for value in fixed.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == name:
                dim.dim_value = size
    yield from _judged(f"edit --dim {name}={size}", compare(fixed, made))


def extracted(trial: Trial) -> Iterator[Finding]:
    """The part of a model that a tensor follows from."""
    inner = trial.random.choice([name for node in trial.model.graph.node for name in node.output if name])
    made, report = surgeon.edit(trial.copy(), edits.Extract(tos=(inner,)))
    wide = trial.copy()
    if inner not in {value.name for value in wide.graph.output}:
        wide.graph.output.add(name=inner)
    yield from _judged(f"extract --to {inner}", compare(wide, made))


JOBS: tuple[Job, ...] = (rewritten, rewritten, rewritten, converted, upgraded, renamed, sized, extracted)


def findings(model: onnx.ModelProto, seed: str, done: Counter[str], count: int = 4) -> Iterator[Finding]:
    """Do some jobs with a model; what is wrong.  done: what was done, counted here."""
    source = random.Random(seed)
    for job in source.sample(JOBS, count):
        done["jobs"] += 1
        try:
            yield from job(Trial(model, random.Random(f"{seed} {job.__name__} {source.random()}"), done))
        except SurgeonError:  # a refusal in one sentence; nothing was written
            done["refusals"] += 1
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            yield Finding("a defect", job.__name__, f"{type(error).__name__}: {error}"[:600])


def _judged(job: str, verdict: Verdict, *, strict: bool = True) -> Iterator[Finding]:
    """strict: the result is for ONNX Runtime; other targets may have ops for which it has no kernel."""
    if verdict.kind and (strict or verdict.kind == "wrong"):
        yield Finding(verdict.kind, job, verdict.text)
