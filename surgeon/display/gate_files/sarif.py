"""The result of the gate as SARIF 2.1.0, for code scanning: a result per regression, at a line of the program."""

import hashlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from surgeon.automation.gate.gate_result import GateResult
from surgeon.automation.gate.gate_rules import GATE_RULES, GateRule
from surgeon.automation.gate.model_comparison import Difference
from surgeon.display.gate_files.repository import Repository
from surgeon.versions import own_version

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ABOUT = "https://onnx-surgeon.github.io/surgeon/"
ROOT = "SRCROOT"  # the usual name of the root of the repository, to which paths are relative


def sarif_text(found: GateResult) -> str:
    """The text of a SARIF file."""
    return f"{json.dumps(_log(found, Repository.around(Path.cwd())), indent=1, ensure_ascii=False)}\n"


def _log(found: GateResult, repository: Repository) -> dict[str, Any]:
    rules = [_rule(rule) for rule in GATE_RULES]
    driver = {"name": "surgeon", "version": own_version(), "informationUri": ABOUT, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"surgeon-gate/{found.settings['target']}/"},
        "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the repository."}}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, one.rule, found, repository) for one in found.differences if one.rule is not None],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: GateRule) -> dict[str, Any]:
    """A rule.  GitHub needs its full description and its help, which the schema does not ask for."""
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.name.replace("-", " ").capitalize()},
        "fullDescription": {"text": rule.summary},
        "help": {"text": rule.help},
        "helpUri": f"{ABOUT}gate.html",
        "defaultConfiguration": {"level": rule.level},
    }


def _result(one: Difference, rule: GateRule, found: GateResult, repository: Repository) -> dict[str, Any]:
    """A regression.  Its place is the line that led to its node or, without one, the model."""
    model = _location(*_model_frame(one.model, found, repository))
    frame = repository.own_frame(one.frames)
    nodes = f", node {one.nodes[0]}" if one.nodes else ""
    about = {"id": 1, "message": {"text": f"The model {one.model}{nodes}"}}
    key = hashlib.sha256("\0".join((rule.id, one.model, one.subject)).encode()).hexdigest()[:32]
    return {
        "ruleId": rule.id,
        "ruleIndex": GATE_RULES.index(rule),
        "level": rule.level,
        "message": {"text": f"{one.model}: {one.text}."},
        "locations": [model if frame is None else _location(*frame)],
        "relatedLocations": [model | about],
        "partialFingerprints": {"surgeonGate/v1": key, "primaryLocationLineHash": f"{key}:1"},  # the latter for GitHub
    }


def _model_frame(name: str, found: GateResult, repository: Repository) -> tuple[str, int]:
    """The first line of a model; for one that is missing, its line in the baseline."""
    source = found.sources.get(name, "")
    baseline = Path(found.baseline)
    if source or not baseline.is_file():
        return repository.relative(source) or (source if "://" in source else name), 1
    lines = baseline.read_text(encoding="utf-8").splitlines()
    named = (number for number, line in enumerate(lines, 1) if line.strip().startswith(f"{json.dumps(name)}: {{"))
    return repository.relative(str(baseline)) or baseline.name, next(named, 1)


def _location(path: str, line: int) -> dict[str, Any]:
    """A line of a file."""
    artifact = {"uri": path} if "://" in path else {"uri": quote(path), "uriBaseId": ROOT}
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line}}}
