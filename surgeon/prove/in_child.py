"""What a child does for a proof: run an experiment, and say what came of it in plain values."""

from typing import Any

from surgeon.prove.experiment import Experiment
from surgeon.prove.site_proof import run_experiment
from surgeon.running.child import Note
from surgeon.running.plain import to_plain


def prove(experiment: Experiment, note: Note) -> tuple[dict[str, Any], list[Any]]:
    """Run an experiment in this process; the proof as plain values.  Notes each step, should it be the last."""
    return to_plain(run_experiment(experiment, note)), []
