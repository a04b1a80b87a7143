"""The documents of results, by the type of the result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from surgeon.display.blocks import Document, Note
from surgeon.errors import UsageError

B = TypeVar("B", bound=Callable[[Any], Document])
HOMES = {
    "authoring": "CapturedRule TriedRule",
    "bench": "Bench",
    "check": "Findings",
    "comparison": "CheckResult",
    "conversion": "ConvertReport",
    "decoder": "DecoderReport",
    "diff": "ModelDiff",
    "edit": "EditReport SplitReport",
    "explanation": "Explanation Explanations Mismatch Mismatches",
    "fleet": "Fleet",
    "gate": "GateResult",
    "inspection": "Inspection",
    "quantization": "QuantizeReport",
    "report": "Report",
    "rewrite": "RewriteReport UpgradeReport",
    "rule_manual": "Rule",
    "rule_proof": "RuleProof",
    "site": "Site Match",
}
"""The modules of `surgeon.display.content` with the classes of results that they say as blocks."""


@dataclass(frozen=True, slots=True)
class DocumentBuilder:
    """How results of a type are shown."""

    kind: str
    """The kind of the result in JSON."""
    build: Callable[[Any], Document]
    """Says a result as blocks."""
    data: Callable[[Any], Any]
    """The JSON value of a result."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command whose function returns none: it drew a picture, say, or wrote files."""

    kind: str
    """The kind of the result in JSON: the name of the command."""
    data: Mapping[str, Any]
    """Its JSON value."""
    lines: Sequence[str] = ()
    """Its text."""


BUILDERS: dict[type, DocumentBuilder] = {}
"""The builders of the modules that are imported."""


def reports(result: type, kind: str, data: Callable[[Any], Any] = lambda found: found.to_dict()) -> Callable[[B], B]:
    """Register a function that says results of a type as blocks.  kind: the name of the type in JSON."""

    def register(build: B) -> B:
        BUILDERS[result] = DocumentBuilder(kind, build, data)
        return build

    return register


def builder_of(result: object) -> DocumentBuilder:
    """The builder for a result; its module is imported if need be.  Raises UsageError for an unknown type."""
    if isinstance(result, CommandResult):
        document = Document(result.kind, [Note(line) for line in result.lines])
        return DocumentBuilder(result.kind, lambda _: document, lambda _: result.data)
    for kind in type(result).__mro__:
        for module, names in HOMES.items():
            if kind.__name__ in names.split():
                import_module(f"surgeon.display.content.{module}")
        if kind in BUILDERS:
            return BUILDERS[kind]
    raise UsageError(f"Nothing is known of how to show {type(result).__name__}: give what surgeon returned.")


def document_of(result: object) -> Document:
    """A result, or a document, as blocks.  Raises UsageError for an unknown type."""
    return result if isinstance(result, Document) else builder_of(result).build(result)


def file_name(path: str, otherwise: str) -> str:
    """The title of a result: its file.  otherwise: for a model in memory."""
    return Path(path).name or otherwise
