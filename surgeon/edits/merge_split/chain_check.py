"""Checks that several models, run one after the other, compute the outputs of one model."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto

from surgeon.file.save import OutputModel
from surgeon.pipeline.editing.claim_check import is_part_of, renamed_part
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.proof.model.comparison_tally import ComparisonTally, build_check_result, tolerances
from surgeon.proof.model.original_runs import OriginalRuns
from surgeon.runtime.inputs.user_inputs import read_inputs
from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
from surgeon.runtime.sessions.ort_session import SessionError


@dataclass(frozen=True, slots=True)
class ChainLink:
    """One model of a chain."""

    title: str
    """Name for messages."""
    model: OutputModel
    """The model."""
    input_names: Mapping[str, str]
    """By input, the name of its value in the chain."""
    output_names: Mapping[str, str]
    """By output, the name of its value in the chain."""
    default_inputs: Collection[str] = ()
    """Inputs with a stored default that may be overridden."""
    constant_inputs: Collection[str] = ()
    """Inputs with a stored value that may not be overridden."""


def check_chain(
    whole: OutputModel,
    skeleton: ModelProto,
    links: Sequence[ChainLink],
    options: CheckOptions,
    reworded: Callable[[str], str] = str,
) -> CheckResult:
    """Run a model and a chain of others on the same inputs, and compare the outputs.

    skeleton: of the model.  links: models with its inputs and outputs, by its names; one is loaded at a time.
    reworded: changes a reason that calls the model the original.  Errors of a model are outcomes; raises UsageError for
    invalid options.
    """
    started = time.perf_counter()
    away = IsolatedRuntime(options.required(), options.run_time)
    rtol, atol = tolerances(skeleton, options)
    given = read_inputs(skeleton, options.inputs)
    trials = OriginalRuns(
        whole, skeleton, seed=options.seed, dims={} if given else options.dims, away=away, given=given
    )
    trials.run()
    tally = ComparisonTally(trials, rtol, atol)
    refusal = (
        _load(whole, links, away, trials.notes.unavailable_because)
        if trials.notes.unavailable_because
        else _follow(links, away, trials, tally)
    )
    outcome, reason = refusal or tally.outcome()
    return build_check_result(outcome, reworded(reason), tally, started=started, asked=(rtol, atol))


def _load(whole: OutputModel, links: Sequence[ChainLink], away: IsolatedRuntime, why: str) -> tuple[Outcome, str]:
    """The outcome if the model itself does not run: a failure if it does not load and the others do."""
    try:
        with away.open(whole):
            return Outcome.UNPROVED, why
    except SessionError as refused:
        if refused.is_unsupported:
            return Outcome.UNPROVED, why
    with suppress(SessionError):
        for link in links:
            with away.open(link.model):
                pass
        return Outcome.FAILED, why
    return Outcome.UNPROVED, why


def _follow(
    links: Sequence[ChainLink], away: IsolatedRuntime, trials: OriginalRuns, tally: ComparisonTally
) -> tuple[Outcome, str] | None:
    """Run the links on all trials; returns an outcome only if one does not run."""
    held: list[dict[str, np.ndarray]] = [dict(trial.feeds) for trial in trials.runs]
    for link in links:
        try:
            with away.open(link.model) as session:
                for values in held:
                    bound = next(
                        (name for name in link.constant_inputs if link.input_names.get(name, name) in values), None
                    )
                    if bound is not None:
                        return Outcome.UNPROVED, (
                            f"In the IR version of {link.title}, '{bound}' always has its stored value, so the model "
                            "cannot run on the value that feeds it now."
                        )
                    wanted = {
                        name: link.input_names.get(name, name) for name in (*session.inputs, *link.default_inputs)
                    }
                    left = [name for name in link.default_inputs if wanted[name] not in values]
                    wanted = {name: source for name, source in wanted.items() if name not in left}
                    lost = next((name for name, source in wanted.items() if source not in values), None)
                    if lost is not None:
                        return Outcome.UNPROVED, f"The value of '{lost}', which {link.title} needs, is not a tensor."
                    answer = session.run({name: values[source] for name, source in wanted.items()})
                    for name, array in answer.items():
                        own = (
                            name
                            if name in link.output_names
                            else next((x for x in link.output_names if is_part_of(name, x)), name)
                        )
                        values[renamed_part(name, own, link.output_names.get(own, own))] = array
        except SessionError as refused:
            if refused.is_unsupported:
                return Outcome.UNPROVED, f"{link.title.capitalize()} cannot run here: {refused.message}"
            return Outcome.FAILED, f"The original runs, but {link.title} does not: {refused.message}"
    for trial, values in zip(trials.runs, held, strict=True):
        tally.add(trial, values)
    return None
