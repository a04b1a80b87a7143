"""A server of the Model Context Protocol (mcp 2.3): surgeon's questions and rewrites as tools of an assistant.

It reads and writes only files in one folder, and runs no code of a caller, except rule files if they are allowed.
"""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from inspect import getdoc, signature
from pathlib import Path
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from surgeon.authoring import capture
from surgeon.declarations import argument_docs, declared, without_python
from surgeon.diagnostics import explanation, target_check
from surgeon.diagnostics.rule_search import rules_with
from surgeon.display.diff import diff_models
from surgeon.display.envelope import envelope
from surgeon.display.registry import CommandResult
from surgeon.display.terminal.rule_manual import listing, manuals, rule_list
from surgeon.display.terminal.sanitise import sanitise
from surgeon.display.terminal.terminal_renderer import text_of
from surgeon.errors import SurgeonError, UsageError
from surgeon.integrations.short_answers import LIMIT, Answers
from surgeon.pipeline.rewriting import rewrite
from surgeon.printed_commands import command
from surgeon.rules.catalogue import all_rules, file_of
from surgeon.targets.inspection import model_summary
from surgeon.versions import own_version

INSTRUCTIONS = """surgeon rewrites ONNX models and proves each rewrite. Paths are relative to the working folder. \
An answer has a summary, the report as JSON, and notes on the parts that do not fit: `details` returns those."""
WORDS = {
    "model": "path of an ONNX model in the working folder.",
    "output": "file to write in the working folder.",
    "rules": "comma-separated rules or groups that the tool rules lists: gelu,attention.  Exclude a rule with -name.  "
    "A path of a rule file needs a server that allows rule files.  Default: the group for the target.",
}
"""Descriptions of parameters that differ from those of the public functions."""
_SENTENCES, _PREFIX = 1024, 64  # characters of an error, and bytes that the protocol puts before it


class AssistantTools:
    """The tools.  folder: contains all files.  allow_rules: whether to load rule files, which are code."""

    def __init__(self, folder: str, allow_rules: bool) -> None:
        self._folder, self._allow_rules = Path(os.path.realpath(folder)), allow_rules

    def inspect(self, model: str) -> Sequence[object]:
        """Returns the facts."""
        return [model_summary.inspect(self._inside(model))]

    def explain(
        self, model: str, rules: str | None = None, target: str = "ort", ep: str | None = None, node: str | None = None
    ) -> Sequence[object]:
        """Nothing is written."""
        found = explanation.explanations(self._inside(model), self._rules(rules), target=target, ep=ep, node=node)
        return [found]

    def check(self, model: str, target: str = "ort", ep: str | None = None) -> Sequence[object]:
        """Nothing is written."""
        return [target_check.check(self._inside(model), target, ep=ep)]

    def rewrite(
        self,
        model: str,
        rules: str | None = None,
        output: str | None = None,
        target: str = "ort",
        ep: str | None = None,
        only: Sequence[str] = (),
        require_proof: bool = False,
        expect: Mapping[str, int] | None = None,
    ) -> Sequence[object]:
        """Without `output`, nothing is written and nothing is proved."""
        path = None if output is None else self._inside(output)
        _, report = rewrite.rewrite(
            self._inside(model), self._rules(rules), output=path, dry_run=path is None, target=target, ep=ep,
            only=only, require_proof=require_proof, expect=expect,
        )  # fmt: skip
        return [report]

    def diff(self, first: str, second: str) -> Sequence[object]:
        """Nothing is written.

        Args:
            first: path of a model in the working folder.
            second: path of the other model.
        """
        return [diff_models.diff(self._inside(first), self._inside(second))]

    def capture(
        self, model: str, name: str, froms: Sequence[str], tos: Sequence[str] = (), output: str | None = None
    ) -> Sequence[object]:
        """The answer has the text of the rule file.  Without `output`, nothing is written.

        Args:
            froms: names of the tensors at which the part begins.
            tos: names of the tensors at which it ends.
            output: new rule file to write in the working folder.
        """
        path = None if output is None else self._inside(output)
        found = capture.capture(self._inside(model), froms, tos, name)
        if path is not None:
            found.save(path)
        return [found]

    def rules(self, name: str | None = None) -> Sequence[object]:
        """List groups and families of rules, search for rules, or show the manual of a rule.

        Args:
            name: rule whose manual is wanted, or group, or a text in the name, family, ops or summary of rules.
        """
        if name is not None and (found := manuals(self._rules(name) or "")):
            return found
        rows = list(all_rules()) if name is None else rules_with(name)
        lines = [f"{key}: {text}" for section in listing(rows, name is not None).values() for key, text in section]
        return [CommandResult("rules", rule_list(rows).data, lines)]

    def _inside(self, path: str) -> str:
        """The path without links, relative to the folder.  Raises UsageError if it leads out of it."""
        real = Path(os.path.realpath(self._folder / path.replace("\0", "")))
        if not real.is_relative_to(self._folder):
            raise UsageError(f"{path!r} is outside of the working folder. Copy the file into {self._folder} first.")
        return os.path.relpath(real, self._folder)

    def _rules(self, names: str | None) -> str | None:
        """The names of rules, if they import no file or module that is not allowed."""
        for name in (part.strip().removeprefix("-") for part in (names or "").split(",")):
            file = file_of(name)
            if file is not None and self._allow_rules:
                self._inside(str(file))
            elif file is not None:
                raise UsageError(f"{name!r} is code. To allow rule files: {command('mcp', '--allow-rules')}")
            elif "." in name:
                raise UsageError(f"{name!r} is a module, which is code. Use an installed rule, or a rule file.")
        return names


PUBLIC: Mapping[str, Callable[..., object]] = {
    "inspect": model_summary.inspect,
    "explain": explanation.explain,
    "check": target_check.check,
    "rewrite": rewrite.rewrite,
    "diff": diff_models.diff,
    "capture": capture.capture,
}
"""The public functions, whose manuals are those of the tools."""
WRITING = ("rewrite", "capture")


def assistant_server(folder: str, *, allow_rules: bool = False) -> "MCPServer[Any]":
    """The server for the files of a folder; its `run()` serves one assistant on standard input and output."""
    server: MCPServer[Any] = MCPServer("surgeon", instructions=INSTRUCTIONS, version=own_version(), log_level="ERROR")
    tools, answers, lock = AssistantTools(folder, allow_rules), Answers(), threading.Lock()
    methods = {name: getattr(tools, name) for name in (*PUBLIC, "rules")}
    for name, method in {**methods, "details": answers.part}.items():
        hints = ToolAnnotations(read_only_hint=name not in WRITING, open_world_hint=False)
        tool = _tool(name, method, answers, lock)
        server.add_tool(tool, annotations=hints, structured_output=False)  # else each answer is sent twice
    return server


def _tool(name: str, method: Callable[..., Any], answers: Answers, lock: threading.Lock) -> Callable[..., str]:
    """A tool, one call of which runs at a time.  Its manual is that of its public function and its method."""

    def run(**given: Any) -> str:
        with lock:
            try:
                found = method(**given)
                return found if isinstance(found, str) else _answer(answers, found)
            except Exception as error:  # the protocol hides the text of an error that is not a ToolError
                raise ToolError(_error_text(answers, error)) from error

    own = getdoc(method) or ""
    manual = [getdoc(PUBLIC[name]) or "", own] if name in PUBLIC else [own]
    words = {item.name: item.words for item in declared("surgeon", name)} | WORDS | argument_docs(own)
    parameters = [
        item.replace(annotation=Annotated[item.annotation, Field(description=without_python(words[item.name]))])
        for item in signature(method).parameters.values()
    ]
    run.__name__, run.__doc__ = name, "\n\n".join(text.partition("\n\nArgs:")[0] for text in manual)
    run.__signature__ = signature(method).replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def _answer(answers: Answers, results: Sequence[object], error: SurgeonError | None = None, room: int = LIMIT) -> str:
    """Results as text: a summary, and the envelope that `--json` prints."""
    summary = "\n".join(text_of(result, advice=False).rstrip() for result in results)
    return answers.add({"summary": summary, **envelope(results, error=error)}, room)


def _error_text(answers: Answers, error: Exception) -> str:
    """The sentence of an error, and its report if it has one."""
    said = sanitise(str(error) if isinstance(error, SurgeonError) else f"{type(error).__name__}: {error}")[:_SENTENCES]
    report = getattr(error, "report", None)
    if report is None or not isinstance(error, SurgeonError):
        return said
    return f"{said}\n{_answer(answers, [report], error, LIMIT - _PREFIX - len(said.encode()))}"
