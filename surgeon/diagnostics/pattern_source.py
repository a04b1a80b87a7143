"""The source code of a pattern function: its helper calls, and text replacements in it."""

import __future__

import ast
import difflib
import linecache
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from surgeon.rules.mismatches.mismatch import ChangedLine

FUTURE = __future__.annotations.compiler_flag


class TextEdit(NamedTuple):
    """Bytes of a file that another text replaces."""

    start: int
    """Offset of the first byte."""
    end: int
    """Offset after the last byte."""
    text: str
    """Replacement text."""


class PatternSource:
    """The source of a pattern function and of the functions that it calls."""

    def __init__(
        self,
        function: Callable[..., Any],
        text: str,
        definitions: Sequence[ast.FunctionDef],
        record: ast.ClassDef | None = None,
    ) -> None:
        """definitions: the pattern first, then the functions that it calls.  record: class of its captures, if any."""
        self.function, self.definitions, self.record = function, definitions, record
        self.file = function.__code__.co_filename
        self.data = text.encode()
        self._starts = [0]
        for line in self.data.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "PatternSource | None":
        """The source of a function at module level; None for any other."""
        code = getattr(function, "__code__", None)
        if code is None or function.__closure__:
            return None
        linecache.checkcache(code.co_filename)
        text = "".join(linecache.getlines(code.co_filename))
        try:
            module = ast.parse(text)
        except SyntaxError:  # the file was changed since it was read
            return None
        known = {item.name: item for item in module.body if isinstance(item, ast.FunctionDef)}
        own = known.get(function.__name__)
        if own is None or code.co_firstlineno not in (own.lineno, *(item.lineno for item in own.decorator_list)):
            return None
        found, waiting = [own], [own]
        while waiting:
            calls = [item.func for item in ast.walk(waiting.pop()) if isinstance(item, ast.Call)]
            called = {item.id for item in calls if isinstance(item, ast.Name)}
            fresh = [known[name] for name in sorted(called & known.keys()) if known[name] not in found]
            found += fresh
            waiting += fresh
        kinds = {getattr(item.annotation, "id", "") for item in own.args.args}
        records = [item for item in module.body if isinstance(item, ast.ClassDef) and item.name in kinds]
        return cls(function, text, found, records[0] if records else None)

    @property
    def pattern(self) -> ast.FunctionDef:
        """The definition of the pattern itself."""
        return self.definitions[0]

    @cached_property
    def helpers(self) -> list[ast.Call]:
        """Calls of helpers: those of the pattern itself first, outer calls before their arguments."""
        found: list[ast.Call] = []
        for definition in self.definitions:
            graph = definition.args.args[0].arg if definition.args.args else ""
            found += [
                item for item in ast.walk(definition) if isinstance(item, ast.Call) and helper_name_of(item, graph)
            ]
        return found

    def is_in_pattern(self, node: ast.AST) -> bool:
        """Whether an expression is in the pattern itself, not in a function that it calls."""
        return any(item is node for item in ast.walk(self.pattern))

    def tensors(self) -> Iterator[ast.expr]:
        """Expressions of tensors: helper calls, and names among their arguments."""
        for call in self.helpers:
            yield call
            yield from (item for item in call.args if isinstance(item, ast.Name))

    def number(self, node: ast.expr) -> float | int | None:
        """The value of a constant numeric expression; None for any other."""
        if isinstance(node, (ast.Tuple, ast.List, ast.JoinedStr)):
            return None
        code = compile(ast.Expression(node), self.file, "eval")
        if any(isinstance(item, ast.Call) for item in ast.walk(node)) and not code.co_names:
            return None
        try:
            found = eval(code, self.function.__globals__)
        except Exception:  # noqa: BLE001 - it uses names of the function, so it is not constant
            return None
        is_number = isinstance(found, (int, float)) and not isinstance(found, bool) and math.isfinite(found)
        return found if is_number else None

    def text_of(self, node: ast.expr) -> str:
        """The source text of an expression."""
        return self.data[slice(*self.span(node))].decode()

    def span(self, node: ast.expr | ast.arg | ast.keyword | ast.stmt) -> tuple[int, int]:
        """Byte offsets of a node in the file."""
        end_line, end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[end_line - 1] + end

    def replaced(self, node: ast.expr | ast.arg, text: str) -> TextEdit:
        """An edit that replaces an expression."""
        return TextEdit(*self.span(node), text)

    def argument(self, call: ast.Call, text: str) -> TextEdit:
        """An edit that appends an argument to a call."""
        end = self.span(call)[1] - 1
        return TextEdit(end, end, f", {text}" if call.args or call.keywords else text)

    def captured(self, wanted: Sequence[str], annotation: str) -> tuple[str, TextEdit]:
        """A new capture with the first free name: its expression, and the edit that adds it.

        It is a field if the pattern has a class of captures, else a parameter.
        """
        fields = [item for item in self.record.body if isinstance(item, ast.AnnAssign)] if self.record else []
        if self.record is None or not fields:
            free = self.free_name(*wanted)
            return free, self.parameter(free, annotation)
        used = {getattr(item.target, "id", "") for item in fields}
        free = next((name for name in wanted if name not in used), f"{wanted[0]}_")
        holder = next(item for item in self.pattern.args.args if getattr(item.annotation, "id", "") == self.record.name)
        last = [item for item in fields if item.value is None][-1:] or fields[-1:]
        end = self.span(last[0])[1]
        return f"{holder.arg}.{free}", TextEdit(end, end, f"\n{' ' * last[0].col_offset}{free}: {annotation}")

    def parameter(self, name: str, annotation: str, default: str = "") -> TextEdit:
        """An edit that adds a parameter to the pattern, with or without a default."""
        arguments = self.pattern.args
        plain = len(arguments.args) - len(arguments.defaults)
        last: ast.arg | ast.expr = arguments.args[plain - 1]
        if default and arguments.defaults:
            last = arguments.defaults[-1]
        end = self.span(last)[1]
        return TextEdit(end, end, f", {name}: {annotation}{f' = {default}' if default else ''}")

    def free_name(self, *wanted: str) -> str:
        """The first name that the pattern does not use, else the first one with an underscore."""
        nodes = list(ast.walk(self.pattern))
        used = {item.id for item in nodes if isinstance(item, ast.Name)} | {
            item.arg for item in nodes if isinstance(item, ast.arg)
        }
        return next((name for name in wanted if name not in used), f"{wanted[0]}_")

    def text_with(self, changes: Iterable[TextEdit]) -> str:
        """The text of the file after edits."""
        data = self.data
        for change in sorted(changes, reverse=True):
            data = data[: change.start] + change.text.encode() + data[change.end :]
        return data.decode()

    def lines_with(self, changes: Iterable[TextEdit]) -> tuple[ChangedLine, ...]:
        """The changed lines, before and after."""
        old, new = self.data.decode().splitlines(), self.text_with(changes).splitlines()
        steps = difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes()
        found: list[ChangedLine] = []
        for kind, i, j, k, m in steps:
            if kind != "equal" and j - i == m - k:
                found += (ChangedLine(self.file, i + at + 1, old[i + at], new[k + at]) for at in range(j - i))
            elif kind == "insert" and i:
                found.append(ChangedLine(self.file, i, old[i - 1], "\n".join([old[i - 1], *new[k:m]])))
            elif kind != "equal":
                found.append(ChangedLine(self.file, i + 1, "\n".join(old[i:j]), "\n".join(new[k:m])))
        return tuple(found)

    def function_with(self, changes: Iterable[TextEdit]) -> Callable[..., Any]:
        """The pattern function after edits.  Raises Python errors if the edits produce no such function."""
        names = {item.name for item in self.definitions} | ({self.record.name} if self.record else set())
        module = ast.parse(self.text_with(changes))
        kinds = (ast.FunctionDef, ast.ClassDef)
        body = [item for item in module.body if isinstance(item, kinds) and getattr(item, "name", "") in names]
        for item in body:
            item.decorator_list = []
        known = dict(self.function.__globals__)
        flags = self.function.__code__.co_flags & FUTURE
        exec(compile(ast.Module([*body], []), self.file, "exec", flags, dont_inherit=True), known)
        made: Callable[..., Any] = known[self.function.__name__]
        return made


def helper_name_of(call: ast.Call, graph: str = "") -> str:
    """Name of the called helper; empty for any other call.  graph: variable name of the graph; any if empty."""
    called = call.func
    if not isinstance(called, ast.Attribute) or not isinstance(called.value, ast.Name):
        return ""
    return called.attr if not graph or called.value.id == graph else ""
