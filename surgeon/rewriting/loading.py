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


def refusal(model: Model, source: Written, written: Written, target: str, ep: str | None, options: CheckOptions) -> str:
    """What ONNX Runtime says against a model and against what a rewrite made of it, as a clause; empty where it loads
    one of them.

    It is not asked of large models, nor where something else than its CPU provider is to run the model.  source: the
    model as ONNX Runtime gets it.
    """
    first = next((one.name for one in target_of(target).providers), CPU)
    is_large = len(model.data) + model.external_bytes > MOST_BYTES or len(model.skeleton.graph.node) > MOST_NODES
    if (ep or first) != CPU or is_large:
        return ""
    if not _said(source, options) or not (why := _said(written, options)):
        return ""
    return f"ONNX Runtime loads neither the original nor what is made of it: {why.rstrip('.')}"


def _said(model: Written, options: CheckOptions) -> str:
    try:
        with Away(options.required(), options.run_time).open(model):
            return ""
    except SessionError as refused:
        return refused.line
