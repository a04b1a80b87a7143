"""The baseline in its file: the facts of each model, with the settings and versions that they depend on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surgeon.automation.gate.model_facts import ModelFacts, facts_from_dict
from surgeon.errors import ModelFileError, UsageError
from surgeon.file.io.atomic_file import write_text
from surgeon.result_base import json_of, json_text

BASELINE = "surgeon-baseline.json"
"""The usual name of a baseline."""
FORMAT = 1


@dataclass(slots=True)
class Baseline:
    """The facts of models at one time."""

    settings: Mapping[str, Any]
    """Target, rules and checks, by the names of their options."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of packages."""
    models: Mapping[str, ModelFacts] = field(default_factory=dict)
    """Facts by the name of the model."""

    def write(self, path: Path) -> None:
        """Write it, one fact per line.  Raises ModelFileError."""
        content = {"format": FORMAT, **json_of(self, "settings versions models")}
        try:
            write_text(path, f"{json_text(content)}\n")
        except OSError as error:
            raise ModelFileError(f"The baseline {path} cannot be written: {error.strerror}.") from None


def read_baseline(path: Path) -> Baseline | None:
    """The baseline of a file; None without a file.  Raises UsageError for another file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        number, models = content["format"], content["models"]
        if number == FORMAT:
            facts = {name: facts_from_dict(found) for name, found in models.items()}
            return Baseline(content["settings"], content["versions"], facts)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"The baseline {path} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(f"{path} is not a baseline. Write one with --update, or give another file.") from None
    raise UsageError(f"{path} has format {number} of another version of surgeon. Write it again with --update.")
