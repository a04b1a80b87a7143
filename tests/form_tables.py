"""Latencies of all forms of a model, for tests of the search: `python -m tests.form_tables MODEL SIZES FILE`.

Every combination of forms is written, and measured by the processor time of one thread.  Forms of which ONNX Runtime
makes the same graph are one.  A table has the number of nodes of each graph, and the median of each load at each shape.
SIZES are as in `--at`, several with a space.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from surgeon.file.model import Model
from surgeon.pipeline.checks import Checks
from surgeon.pipeline.measuring.form_variants import FormVariants
from surgeon.pipeline.rewriting.rule_set import RuleSet
from surgeon.rules.choices import FormChoice, RuleChoices
from surgeon.runtime.timing.bench_inputs import feeds_of
from surgeon.runtime.timing.bench_tasks import LoadRequest
from surgeon.runtime.timing.load_batches import BATCH, sample
from surgeon.runtime.timing.loaded_graphs import LoadedModel
from surgeon.runtime.timing.samples import LatencySamples

FOLDER = Path(__file__).with_name("form_tables")
LOADS = 24


@dataclass(frozen=True)
class Tabled:
    """One combination of forms in a table."""

    decision: Mapping[str, str]
    key: int
    nodes: int
    fired: frozenset[str]


class FormTable:
    """A stored table, which answers as the measuring parts do."""

    def __init__(self, path: Path, first_load: int = 0) -> None:
        held: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        self.choices = RuleChoices(
            [FormChoice(name, {form: frozenset([f"{name}: {form}"]) for form in forms})
             for name, forms in held["forms"]],
            frozenset(),
        )
        self.log_seconds = np.log(np.array(held["seconds"]))  # [load, shape, key]
        self.rows = [Tabled(dict(zip(self.names, forms, strict=True)), key, held["nodes"][key],
                            frozenset(f"{name}: {form}" for name, form in zip(self.names, forms, strict=True)))
                     for forms, key in held["rows"]]
        self.drawn = first_load
        self.seen: set[int] = set()

    @property
    def names(self) -> list[str]:
        return [choice.name for choice in self.choices.choices]

    def make(self, decision: Mapping[str, str]) -> Tabled:
        return next(row for row in self.rows if row.decision == decision)

    def neighbours(self, row: Tabled) -> list[Tabled]:
        return [self.make(other) for other in self.choices.neighbours(row.decision, row.fired)]

    def start(self) -> Tabled:
        return self.make(self.choices.defaults)

    def __call__(self, rows: Sequence[Tabled]) -> LatencySamples:
        """The next loads of the table; after the last one, the first again."""
        self.seen |= {row.key for row in rows}
        count = len(self.log_seconds)
        loads = [(self.drawn + place) % count for place in range(BATCH)]
        self.drawn += BATCH
        logs = self.log_seconds[loads][:, :, [0, *(row.key for row in rows)]]
        return LatencySamples(np.exp(logs)[..., None], np.arange(BATCH) * 1.0, np.ones(BATCH))

    def ratio(self, row: Tabled) -> float:
        """The latency by the original's: the median over all loads of the geometric mean over the shapes."""
        logs = (self.log_seconds[:, :, row.key] - self.log_seconds[:, :, 0]).mean(axis=1)
        return float(np.exp(np.median(logs)))


def record(source: Path, shapes: Sequence[Mapping[str, int]], threads: int = 1) -> dict[str, Any]:
    """Measure all combinations of forms of a model."""
    with ExitStack() as stack:
        with Model.open(source) as model:
            feeds, sizes = feeds_of([model], (), shapes, 0)
        how = LoadedModel(source, feeds, threads)
        variants = FormVariants(source, RuleSet("transformers"), Checks(), how=how, stack=stack, progress=print)
        start = variants.start()
        forms = {choice.name: [choice.default] for choice in variants.choices.choices}
        for near in variants.choices.neighbours(start.decision, start.fired):
            ((name, form),) = near.items() - start.decision.items()
            if variants.make(near).key != start.key:
                forms[name].append(form)
        forms = {name: found for name, found in forms.items() if len(found) > 1}
        made, rows = {"": None}, []
        for chosen in product(*forms.values()):
            one = variants.make({**start.decision, **dict(zip(forms, chosen, strict=True))})
            made.setdefault(one.key, one)
            rows.append((chosen, list(made).index(one.key)))
            print(chosen, one.nodes, file=sys.stderr)
        models = [one for one in made.values() if one is not None]
        asked = LoadRequest(
            ["original", *(str(place) for place in range(len(models)))], [source, *(one.model for one in models)],
            feeds, threads, loads=BATCH, cpu_time=threads == 1,
        )  # fmt: skip
        seconds = []
        for batch in range(LOADS // BATCH):
            found = sample(replace(asked, order=batch), sizes)
            seconds += np.exp(found.log_seconds).round(7).tolist()
        nodes = [start.rule_set.report.nodes_before, *(one.nodes for one in models)]
        return {"forms": list(forms.items()), "nodes": nodes, "rows": rows, "seconds": seconds}


if __name__ == "__main__":
    given = [{name: int(size) for name, size in (pair.split("=") for pair in text.split(","))}
             for text in sys.argv[2].split()]
    Path(sys.argv[3]).write_text(json.dumps(record(Path(sys.argv[1]), given)) + "\n", encoding="utf-8")
