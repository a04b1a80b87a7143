"""A transform outside of the engine: multiply an output by a power of two, and claim so."""

from dataclasses import dataclass

import numpy as np
from onnx import helper, numpy_helper

from surgeon.errors import UsageError
from surgeon.file.save import OutputModel
from surgeon.pipeline.checks import Checks
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.reports.edit_report import AppliedEdit, EditReport
from surgeon.pipeline.snapshot import Snapshot
from surgeon.pipeline.transform import Claim, Words
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime


@dataclass(frozen=True)
class Scale:
    """Multiply an output by a factor, which is exact for powers of two."""

    output: str
    factor: float = 2.0
    claimed: float = 2.0
    flag = "scale"

    def to_dict(self) -> dict[str, object]:
        """The fields for JSON."""
        return {"output": self.output, "factor": self.factor}

    def apply(self, draft: ModelDraft, checks: Checks) -> Claim:
        """Append the Mul."""
        if self.factor == 1:
            raise UsageError(f"A factor of 1 leaves {self.output!r} as it is; give another.")
        inner = draft.fresh(f"{self.output}_unscaled")
        node = draft.index.main.producers[self.output].proto
        node.output[list(node.output).index(self.output)] = inner
        draft.store(numpy_helper.from_array(np.array(self.factor, np.float32), draft.fresh("factor")))
        draft.graph.node.append(helper.make_node("Mul", [inner, draft.graph.initializer[-1].name], [self.output]))
        draft.changed()
        done = AppliedEdit(self, (f"{self.output!r} is scaled by {self.factor:g}",))
        report = EditReport("", "", [done], by_structure=False)
        return Claim(report, Words.of("scaled"), self._compare)

    def _compare(self, before: Snapshot, made: OutputModel, options: CheckOptions) -> CheckResult:
        """Whether the output is the claimed multiple of what it was."""
        away, feeds = IsolatedRuntime([], options.run_time), {"x": np.arange(4, dtype=np.float32)}
        with away.open(before.runnable()) as one, away.open(made) as other:
            was, now = one.run(feeds)[self.output], other.run(feeds)[self.output]
        same = np.array_equal(was * self.claimed, now)
        why = "" if same else f"{self.output!r} is not {self.claimed:g} times what it was"
        return CheckResult(Outcome.PROVED if same else Outcome.FAILED, why, (), seconds=0.0, runs=1, tolerance={})
