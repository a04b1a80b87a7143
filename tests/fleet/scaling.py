"""How a fleet grows with its workers, and what a model costs beyond its rewrite."""

import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import surgeon
from tests.fleet import parts, zoo

COUNT = 60
RECIPE = surgeon.Recipe([surgeon.Rules("ort")])


def run(_):
    """Print the ratios."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        for place in range(COUNT):
            (folder / "zoo").mkdir(exist_ok=True)
            shutil.copy(zoo.DISTILBERT, folder / f"zoo/{place:03}.onnx")
        overhead(folder)
        workers(folder)


def overhead(folder):
    """A fleet of one after another beside rewrites in one warm process, without proofs."""
    options = surgeon.CheckOptions(jobs=1)
    models = sorted((folder / "zoo").glob("*.onnx"))
    for check in ("none", "auto"):
        (folder / "alone").mkdir(exist_ok=True)
        surgeon.run(RECIPE, models[0], folder / "alone/warm.onnx", check=check, options=options)
        began = time.perf_counter()
        for model in models:
            surgeon.run(RECIPE, model, folder / "alone" / model.name, check=check, options=options)
        alone = (time.perf_counter() - began) / COUNT
        took = []
        for way in ("cold", "warm"):
            to = folder / f"out-{check}-{way}"
            settings = {"to": to, "check": check, "own_proofs": True, "options": options}
            began = time.perf_counter()
            surgeon.run_many(RECIPE, f"{folder}/zoo/*.onnx", **settings)
            took.append((time.perf_counter() - began) / COUNT)
        print(
            f"check {check}: a model takes {alone * 1e3:.0f} ms by itself, {took[1] * 1e3:.0f} ms in a fleet "
            f"({(took[1] - alone) * 1e3:+.0f} ms)",
            flush=True,
        )


def workers(folder):
    """One worker and two, in turn; each has loaded all before it counts."""
    ratios = []
    for turn in range(3):
        took = {}
        for count in (1, 2):
            with ExitStack() as stack:
                _, address = stack.enter_context(parts.scheduler())
                stack.enter_context(parts.workers(address, count, folder / "dask"))
                time.sleep(3)  # a worker that comes late counts for nothing
                for way in ("warm", "timed"):
                    settings = {"to": folder / f"workers-{turn}-{count}-{way}", "engine": address, "own_proofs": True}
                    began = time.perf_counter()
                    surgeon.run_many(RECIPE, f"{folder}/zoo/*.onnx", **settings)
                    took[count] = time.perf_counter() - began
        ratios.append(took[1] / took[2])
        print(f"1 worker {took[1]:.1f} s, 2 workers {took[2]:.1f} s: {took[1] / took[2]:.2f} times", flush=True)
    print(f"median {sorted(ratios)[1]:.2f} times")
