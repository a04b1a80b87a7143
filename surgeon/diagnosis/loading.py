"""ONNX Runtime's own word: whether it loads a model against which nothing else stands."""

import onnx

from surgeon.diagnosis.finding import Finding
from surgeon.file.model import Model
from surgeon.running.away import Away
from surgeon.running.runtime import SessionError


def refusal(model: Model, away: Away) -> Finding | None:
    """What ONNX Runtime's CPU provider says against a model, None where it loads it.  Its weights are read for that."""
    source = model.path if model.path is not None else onnx.ModelProto.FromString(bytes(model.data))
    try:
        with away.open(source):
            return None
    except SessionError as error:
        return Finding("load", "", f"ONNX Runtime does not load the model: {error.line.rstrip('.')}", count=1)
