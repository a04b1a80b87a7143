"""Whether ONNX Runtime loads a model without other findings."""

from collections.abc import Sequence

from surgeon.file.model import Model
from surgeon.targets.lint.finding import Diagnostic


def load_error(model: Model, libraries: Sequence[str], run_time: float) -> Diagnostic | None:
    """The reason why ONNX Runtime's CPU provider rejects a model; None if it loads it.  This reads its weights."""
    # Not at the top: `import surgeon` is to be light.
    from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
    from surgeon.runtime.sessions.ort_session import SessionError

    source = model.runnable()
    try:
        with IsolatedRuntime(libraries, run_time).open(source):
            return None
    except SessionError as error:
        return Diagnostic("load", "", f"ONNX Runtime does not load the model: {error.message.rstrip('.')}", count=1)
