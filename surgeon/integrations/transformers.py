"""surgeon for the exporters of transformers: an `ExportedModel` as a kind of model, and an exporter that runs rules.

    from surgeon.integrations.transformers import RulesConfig, RulesExporter

    exported = RulesExporter().export(model, inputs, RulesConfig(dynamic=True, rules="transformers"))
    exported.save_pretrained("exported")

Tested with transformers 5.24.
"""

import warnings
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any

import onnx
import onnx_ir as ir
from transformers.exporters.base import ExportedModel
from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

from surgeon.errors import UsageError
from surgeon.file.external_data.held_tensors import HeldModel, HeldTensors
from surgeon.file.kinds import Kind
from surgeon.integrations.onnx_ir import KIND as MODELS
from surgeon.integrations.onnx_ir import InPlace
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.rewriting.rewrite import rewrite


class ExportedModelKind(Kind):
    """An `ExportedModel`: each of its components has a model of onnx_ir."""

    title = "a transformers ExportedModel"

    def takes(self, source: object) -> bool:
        """Whether it is an ExportedModel."""
        return isinstance(source, ExportedModel)

    def parts(self, source: Any) -> Mapping[str, Any]:
        """The models of the components.  Raises UsageError for another format than ONNX."""
        parts = {name: component.program for name, component in source.components.items()}
        if not all(isinstance(program, ir.Model) for program in parts.values()):
            raise UsageError(f"This export has the format {source.export_format}. Export it with OnnxExporter.")
        return parts

    def exported(self, source: Any) -> HeldModel:
        """The model of the only component, with references to its large tensors."""
        return MODELS.exported(*self.parts(source).values())

    def give(self, source: Any, made: onnx.ModelProto, held: Mapping[str, HeldTensors]) -> Any:
        """An export whose only component has the result."""
        ((name, model),) = self.parts(source).items()
        return self.joined(source, {name: MODELS.give(model, made, held)})

    def joined(self, source: Any, parts: Mapping[str, Any]) -> Any:
        """A new export with other models, of the same class and configuration."""
        for name, model in parts.items():
            stored = [value.const_value for value in model.graph.initializers.values()]
            is_changed = model is not source.components[name].program
            if is_changed and any(isinstance(tensor, ir.ExternalTensor) for tensor in stored):
                warnings.warn(f"Weights of {name!r} are in a file. Save the result before you call it.", stacklevel=2)
        components = {name: replace(one, program=parts[name]) for name, one in source.components.items()}
        return type(source)(components, source.export_format, source.config, source.generation_config)


KIND = ExportedModelKind()


@dataclass
class RulesConfig(OnnxConfig):
    """An OnnxConfig with rules to run on each exported component; the saved `export.json` has them."""

    rules: str | None = None
    """Rules as for `surgeon.rewrite`; None: none."""
    require_proof: bool = False
    """Whether sites that are not proved are rolled back, too."""


class RulesExporter(OnnxExporter):
    """An OnnxExporter that runs rules.  `reports` has the reports of its exports, one for each component in order."""

    config_class = RulesConfig

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[RewriteReport] = []

    def export_program(self, model: Any, sample_inputs: MutableMapping[str, Any], config: Any) -> tuple[Any, Any]:
        """Export one component, and run the rules; a site whose proof fails is rolled back."""
        program, metadata = super().export_program(model, sample_inputs, config)
        if config.rules is not None:
            _, report = rewrite(InPlace(program), config.rules, require_proof=config.require_proof, keep_going=True)
            self.reports.append(report)
        return program, metadata
