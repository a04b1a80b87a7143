"""What is to be done to all models of a fleet, and to one: values that go to the process that does it."""

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
from surgeon.automation.fleet.local_imports import imported, is_own
from surgeon.automation.fleet.storage.storage import storage_of
from surgeon.automation.recipes.recipe import Recipe, Rules
from surgeon.entry_points import entry_points
from surgeon.errors import UsageError
from surgeon.pipeline.rewriting.rewrite_settings import require_choice, require_target
from surgeon.proof.check_options import CheckOptions
from surgeon.rules.catalogue import file_of, resolve_with_edits
from surgeon.rules.rule import Rule
from surgeon.versions import versions as installed

MODEL_TIME = 600.0
"""Seconds by the clock that one model may take where nothing else is said."""


@lru_cache(maxsize=1)
def dependency_versions() -> Mapping[str, str]:
    """The versions that a result hangs on."""
    return {**installed(), "python": ".".join(platform.python_version_tuple()[:2])}


@dataclass(frozen=True)
class FleetSettings:
    """What is the same for all models of a run.

    to: the target's URL.  model_time: seconds by the clock.  model_memory: bytes, None for a part of the machine's.
    shares_proofs: whether proofs are shared with other models.  cache_key: what results hang on, apart from the model.
    run: what tells one run from another.  versions: of the process that wants it.
    """

    recipe: Recipe
    to: str
    check: str = "auto"
    require_proof: bool = False
    external_data: str = "auto"
    options: CheckOptions = field(default_factory=CheckOptions)
    model_time: float = MODEL_TIME
    model_memory: int | None = None
    dry_run: bool = False
    shares_proofs: bool = True
    cache_key: str = ""
    run: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def require(self) -> None:
        """Raise UsageError for settings, and for a recipe, that mean nothing whatever the model is."""
        self.options.require()
        if not 0 < self.model_time < float("inf"):
            raise UsageError(f"A model cannot take {self.model_time:g} s; give it some, as in --model-time 600.")
        if self.model_memory is not None and self.model_memory < 1 << 28:
            raise UsageError("A model needs 256 MB of memory and more; give it some, as in --model-memory 4GB.")
        if self.external_data == "share":
            raise UsageError("Models of a fleet go to another folder, so their data files are not shared; use copy.")
        for place, step in enumerate(self.recipe.steps):
            if isinstance(step, Rules):
                try:
                    require_target(self.recipe.target, self.recipe.ep)
                    require_choice(step.upgrade, step.expect, step.only, step.skip)
                except UsageError as error:
                    raise UsageError(f"{self.recipe.at(place)}{error}") from None
        self._rules()

    def _rules(self) -> list[Rule]:
        """The rules of all steps.  Raises RuleError and UsageError for names that mean nothing."""
        found: list[Rule] = []
        for step in self.recipe.steps:
            if isinstance(step, Rules):
                rules, _ = resolve_with_edits(step.rules, approximate=step.approximate)
                found += [rule for some in rules.values() for rule in some]
        return found

    def with_cache_key(self) -> "FleetSettings":
        """The same with its key."""
        told = asdict(self.options)
        told.pop("jobs")
        content = {
            "recipe": self.recipe.text(),
            "files": {str(path): _digest(path) for path in (*self.files(), *self._modules())},
            "packs": {point.dist.name: point.dist.version for point in entry_points() if point.dist is not None},
            "check": [self.check, self.require_proof, self.external_data],
            "options": json.loads(json.dumps(told, default=str)),
            "versions": dict(dependency_versions()),
        }
        text = json.dumps(content, sort_keys=True, ensure_ascii=False)
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        return replace(self, cache_key=key, run=uuid.uuid4().hex[:8], versions=dict(dependency_versions()))

    @property
    def limits(self) -> list[float]:
        """What one model may take, as a row says it."""
        return [self.model_time, self.model_memory or 0]

    def files(self) -> list[Path]:
        """The files of rules and of ops that are read where a model is worked on."""
        named = [part.strip().removeprefix("-") for step in self.recipe.steps if isinstance(step, Rules)
                 for part in step.rules.split(",")]
        rules = [str(path) for path in map(file_of, named) if path is not None]
        return [Path(os.path.abspath(path)) for path in dict.fromkeys([*rules, *map(str, self.options.custom_ops)])]

    def _modules(self) -> list[Path]:
        """The modules of one's own that these files import, and those that rules come from by the names of modules."""
        sources = [getattr(sys.modules.get(rule.module), "__file__", None) for rule in self._rules()]
        homes = [Path(os.path.realpath(file)) for file in dict.fromkeys(sources) if file is not None and is_own(file)]
        files = [path for path in self.files() if path.suffix == ".py"]
        return sorted({*homes, *imported([*files, *homes])} - {Path(os.path.realpath(path)) for path in files})


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None


@dataclass(frozen=True, slots=True)
class ModelJob:
    """One model.

    name: below the target.  source: its URL.  size, version_token: of its file.  nodes: as of last time, 0 where that
    is not known.  sibling_folders: the folders of other models whose results go to one folder with that of this, but
    for its own.  previous_data_files: what its data files were called that lay beside its result last time.  stage: a
    folder to work in.  memory: bytes that its process may have.
    """

    name: str
    source: str
    size: int
    version_token: str
    orders: FleetSettings
    nodes: int = 0
    sibling_folders: tuple[str, ...] = ()
    previous_data_files: tuple[str, ...] = ()
    stage: Path = Path()
    memory: int = 0

    def row(self, outcome: str = "", why: str = "") -> FleetRow:
        """A row on it, as far as it is known before anything is done."""
        storage, root = storage_of(self.orders.to)
        return FleetRow(
            self.name,
            self.source,
            storage.url(storage.join(root, self.name)),
            outcome=outcome,
            why=why,
            size=self.size,
            key=self.orders.cache_key,
            files={"": self.version_token},
            limits=self.orders.limits,
            versions=dict(dependency_versions()),
        )
