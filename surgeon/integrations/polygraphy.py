"""surgeon in polygraphy: a loader that runs rules on the ONNX model of another loader.  Tested with polygraphy 0.53."""

from typing import Any

from polygraphy.backend.base import BaseLoader
from polygraphy.logger import G_LOGGER
from polygraphy.util import invoke_if_callable

from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.rewriting.rewrite import rewrite
from surgeon.pipeline.rewriting.rule_set import Rules


class RewriteOnnx(BaseLoader):
    """A loader of an ONNX model on which rules have run: `BytesFromOnnx(RewriteOnnx(OnnxFromPath("in.onnx"), "ort"))`.

    A site that is rolled back does not stop it.  It logs one line of the report at each call.
    """

    def __init__(self, model: Any, rules: Rules | None = None, **options: Any) -> None:
        """Name the model, a ModelProto, a gs.Graph or a loader of one, the rules, and options of `surgeon.rewrite`."""
        self._model, self._rules = model, rules
        self._options = {"keep_going": True, **options}
        self._reports: list[RewriteReport] = []  # changed in place: a call may set no attribute

    def call_impl(self) -> Any:
        """Return the model that the rules made, of the type that the other loader returns."""
        made, report = rewrite(invoke_if_callable(self._model)[0], self._rules, **self._options)
        self._reports[:] = [report]
        (G_LOGGER.info if report.proved else G_LOGGER.warning)(repr(report))
        return made

    @property
    def report(self) -> RewriteReport | None:
        """The report of the last call; None before the first."""
        return next(iter(self._reports), None)
