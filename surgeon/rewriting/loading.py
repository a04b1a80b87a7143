"""Whether ONNX Runtime loads the model that is rewritten: proofs of sites never ask, as they run the sites alone."""

from surgeon.file.model import Model
from surgeon.file.save import Written
from surgeon.models.options import CheckOptions
from surgeon.running.away import Away
from surgeon.running.kernels import CPU
from surgeon.running.runtime import SessionError
from surgeon.target import target_of

MOST_BYTES = 1 << 28
MOST_NODES = 20_000
"""A model up to which it is loaded to be asked: a larger one takes longer than the proofs of its sites."""


def is_asked(model: Model, target: str, ep: str | None) -> bool:
    """Whether it is asked of a model: of no large one, nor where something else than its CPU provider is to run it."""
    first = next((one.name for one in target_of(target).providers), CPU)
    is_large = len(model.data) + model.external_bytes > MOST_BYTES or len(model.skeleton.graph.node) > MOST_NODES
    return (ep or first) == CPU and not is_large


def refusal(model: Written, options: CheckOptions, *, optimised: bool = False) -> SessionError | None:
    """What ONNX Runtime says against a model; None where it loads it, or was cut off.

    optimised: with its own optimisations, which know more of sizes and may find that they do not fit.
    """
    try:
        with Away(options.required(), options.run_time).open(model, optimised=optimised):
            return None
    except SessionError as refused:
        return None if refused.cut_off else refused
