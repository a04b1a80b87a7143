"""The settings of a run over many models, and the job of one model; both are sent to the process that works."""

import hashlib
import json
import os
import platform
import sys
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from surgeon.automation.fleet.fleet_row import FleetRow
from surgeon.automation.fleet.local_imports import is_local, local_imports
from surgeon.automation.fleet.run_database import PlannedModel
from surgeon.automation.fleet.storage.storage import storage_of
from surgeon.automation.recipes.recipe import Recipe, Rules
from surgeon.automation.recipes.run_recipe import rule_set
from surgeon.entry_points import entry_points
from surgeon.errors import UsageError
from surgeon.file.external_data.new_file import MODES
from surgeon.proof.check_options import CheckOptions
from surgeon.rules.catalogue import file_of
from surgeon.rules.rule import Rule
from surgeon.versions import versions as installed

MODEL_TIME = 600.0
"""The default limit of one model, in seconds of wall time."""


@lru_cache(maxsize=1)
def dependency_versions() -> Mapping[str, str]:
    """The versions that a result depends on."""
    return {**installed(), "python": ".".join(platform.python_version_tuple()[:2])}


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """The limits of the process of one model."""

    seconds: float = MODEL_TIME
    """Wall time in seconds."""
    memory: int | None = None
    """Bytes of memory; None for a share of the machine's."""

    def require(self) -> None:
        """Raise UsageError for limits under which no model can run."""
        if not 0 < self.seconds < float("inf"):
            raise UsageError(f"{self.seconds:g} s is not enough for a model. Give more, for example --model-time 600")
        if self.memory is not None and self.memory < 1 << 28:
            raise UsageError("A model needs at least 256 MB of memory. Give more, for example --model-memory 4GB")

    def to_list(self) -> list[float]:
        """The limits as a row has them."""
        return [self.seconds, self.memory or 0]


@dataclass(frozen=True)
class FleetSettings:
    """The settings that all models of a run share."""

    recipe: Recipe
    """The recipe."""
    to: str
    """The target's URL."""
    check: str = "auto"
    """Either "auto" or "none"."""
    require_proof: bool = False
    """Whether a site without a proof is a failure."""
    external_data: str = "auto"
    """One of "auto", "copy" and "inline"."""
    options: CheckOptions = field(default_factory=CheckOptions)
    """Seeds, sizes, tolerances and limits of the checks."""
    limits: ModelLimits = ModelLimits()
    """The limits of each model."""
    dry_run: bool = False
    """Whether nothing is written."""
    shares_proofs: bool = True
    """Whether models reuse each other's proofs."""
    cache_key: str = ""
    """Hash of everything that a result depends on, apart from the model."""
    run: str = ""
    """Random identifier of the run."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of the process that started the run."""

    def require(self) -> None:
        """Raise UsageError for settings, and for a recipe, that are invalid for every model."""
        self.options.require()
        self.limits.require()
        if self.external_data == "share":
            raise UsageError("Results go to another folder, so they cannot share data files. Use --external-data copy")
        if self.external_data not in MODES:
            raise UsageError("The results of several models cannot have one data file. Use --external-data auto")
        for place, step in enumerate(self.recipe.steps):
            if isinstance(step, Rules):
                try:
                    rule_set(self.recipe, step).require()
                except UsageError as error:
                    raise UsageError(f"{self.recipe.at(place)}{error}") from None

    def _rules(self) -> list[Rule]:
        """The rules of all steps."""
        sets = [rule_set(self.recipe, step) for step in self.recipe.steps if isinstance(step, Rules)]
        return [rule for one in sets for rules in one.resolved[0].values() for rule in rules]

    def with_cache_key(self) -> "FleetSettings":
        """The settings with their cache key, a new identifier of the run, and the versions of this process."""
        options = asdict(self.options)
        del options["jobs"], options["cache"]
        content = {
            "recipe": self.recipe.text(),
            "files": {str(path): _digest(path) for path in (*self.files(), *self._modules())},
            "packs": {point.dist.name: point.dist.version for point in entry_points() if point.dist is not None},
            "check": [self.check, self.require_proof, self.external_data],
            "options": json.loads(json.dumps(options, default=str)),
            "versions": dict(dependency_versions()),
        }
        text = json.dumps(content, sort_keys=True, ensure_ascii=False)
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        return replace(self, cache_key=key, run=uuid.uuid4().hex[:8], versions=dict(dependency_versions()))

    def files(self) -> list[Path]:
        """The files of rules and of custom ops that a worker reads."""
        named = [part.strip().removeprefix("-") for step in self.recipe.steps if isinstance(step, Rules)
                 for part in step.rules.split(",")]
        rules = [str(path) for path in map(file_of, named) if path is not None]
        return [Path(os.path.abspath(path)) for path in dict.fromkeys([*rules, *map(str, self.options.custom_ops)])]

    def _modules(self) -> list[Path]:
        """The local modules that these files import, and the local modules of the rules."""
        sources = [getattr(sys.modules.get(rule.module), "__file__", None) for rule in self._rules()]
        homes = [Path(os.path.realpath(file)) for file in dict.fromkeys(sources) if file is not None and is_local(file)]
        files = [path for path in self.files() if path.suffix == ".py"]
        return sorted({*homes, *local_imports([*files, *homes])} - {Path(os.path.realpath(path)) for path in files})


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None


@dataclass(frozen=True, slots=True)
class ModelJob:
    """The job of one model."""

    model: PlannedModel
    """The model."""
    settings: FleetSettings
    """The settings of the run."""
    nodes: int = 0
    """Number of nodes in the previous run; 0 if unknown."""
    sibling_folders: tuple[str, ...] = ()
    """Source folders of other models whose results go to the same folder as this model's result."""
    previous_data_files: tuple[str, ...] = ()
    """Names of the data files of the previous result."""
    stage: Path = Path()
    """A folder for temporary files."""
    memory: int = 0
    """Bytes of memory for the process of this model."""

    def row(self, outcome: str = "", why: str = "") -> FleetRow:
        """A row with the fields that are known before the work begins."""
        storage, root = storage_of(self.settings.to)
        return FleetRow(
            self.model.name,
            self.model.source,
            storage.url(storage.join(root, self.model.name)),
            outcome=outcome,
            why=why,
            size=self.model.size,
            key=self.settings.cache_key,
            files={"": self.model.token},
            limits=self.settings.limits.to_list(),
            versions=dict(dependency_versions()),
        )
