"""surgeon in Olive: the pass `SurgeonRewrite`, the surgery `RunRules`, and Olive's package configuration with both.

`python -m surgeon.integrations.olive > olive.json` writes that configuration.  Tested with olive-ai 0.13.
"""

import json
import logging
from pathlib import Path
from typing import Any

from olive.model import ONNXModelHandler
from olive.model.utils import resolve_onnx_path
from olive.package_config import OlivePackageConfig
from olive.passes import Pass
from olive.passes.onnx import common, graph_surgeries
from olive.passes.pass_config import PassConfigParam

from surgeon.automation.fleet.job import FleetSettings
from surgeon.automation.recipes.recipe import Recipe, Rules
from surgeon.pipeline.rewriting.rewrite import rewrite
from surgeon.rules.catalogue import default_group
from surgeon.target_registry import target_of

HOME = "surgeon.integrations.olive"  # not __name__, which is "__main__" for the command
DEFAULTS = {"rules": "", "target": "ort", "ep": "", "require_proof": False, "rules_key": ""}  # the key is computed
PARAMS = {name: PassConfigParam(type_=type(value), default_value=value) for name, value in DEFAULTS.items()}
logger = logging.getLogger(f"olive.{HOME}")  # below Olive's own, so that --log_level applies


class RunRules(graph_surgeries.ProtoSurgeon):
    """Rules as a surgery: `{"surgeon": "RunRules", "rules": "ort"}`.  `report` is the report of the last run."""

    def __init__(self, rules: str = "", target: str = "ort", ep: str = "", require_proof: bool = False) -> None:
        self.rules: str = rules or default_group(target)
        self.options: dict[str, Any] = {"target": target, "ep": ep or None, "require_proof": require_proof}
        recipe = Recipe([Rules(self.rules)], target, ep or None)
        self.key = FleetSettings(recipe, "").with_cache_key().cache_key  # of all that a result depends on
        self.report: Any = None

    def __call__(self, model: Any, output: Path | None = None) -> Any:
        """Return the model that the rules make, or the output path; a site that fails its proof is rolled back."""
        made, self.report = rewrite(model, self.rules, output=output, keep_going=True, **self.options)
        logger.log(logging.INFO if self.report.proved else logging.WARNING, "%r", self.report)
        return made


class GraphSurgeries(graph_surgeries.GraphSurgeries):
    """Olive's pass with `RunRules`, and with a key for Olive's cache that changes with rule files."""

    def __init__(self, accelerator_spec: Any, config: Any, host_device: Any = None) -> None:
        surgeons = map(self.init_surgeon_instance, config.surgeries)
        key = ",".join(one.key for one in surgeons if isinstance(one, RunRules))
        super().__init__(accelerator_spec, config.model_copy(update={"rules_key": key}), host_device)

    @classmethod
    def _default_config(cls, accelerator_spec: Any) -> Any:
        return {**super()._default_config(accelerator_spec), "rules_key": PARAMS["rules_key"]}


class SurgeonRewrite(Pass):
    """Rules as a pass.  `run_rules.report` is the report of the last run."""

    def __init__(self, accelerator_spec: Any, config: Any, host_device: Any = None) -> None:
        cuda = "cuda" if accelerator_spec.accelerator_type == "gpu" else ""  # as Olive, if no provider is named
        is_of_ort = any(one.is_of_ort for one in target_of(config.target).providers)
        ep = config.ep or (accelerator_spec.execution_provider or cuda if is_of_ort else "")
        self.run_rules = RunRules(config.rules, config.target, ep, config.require_proof)
        super().__init__(accelerator_spec, config.model_copy(update={"rules_key": self.run_rules.key}), host_device)

    @classmethod
    def _default_config(cls, accelerator_spec: Any) -> Any:
        return PARAMS

    def _run_for_config(self, model: Any, config: Any, output_model_path: str) -> Any:
        path = Path(resolve_onnx_path(output_model_path, Path(model.model_path).name))
        self.run_rules(model.model_path, path)
        has_data = common.get_external_data_file_names(path)
        return ONNXModelHandler(path.parent, path.name) if has_data else ONNXModelHandler(path)


def package_config() -> dict[str, Any]:
    """Olive's own package configuration with `SurgeonRewrite`, and with the `GraphSurgeries` of this module."""
    config: dict[str, Any] = json.loads(Path(OlivePackageConfig.get_default_config_path()).read_text(encoding="utf-8"))
    for name in ("SurgeonRewrite", "GraphSurgeries"):
        config["passes"][name] = {**config["passes"]["GraphSurgeries"], "module_path": f"{HOME}.{name}"}
    return config


if __name__ == "__main__":
    print(json.dumps(package_config(), indent=2))
