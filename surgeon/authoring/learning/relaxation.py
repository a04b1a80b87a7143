"""Relaxed variants of a learned pattern: each replaces one literal by a capture."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from surgeon.authoring.learning.codegen import GeneratedPattern
from surgeon.ir.index import Index
from surgeon.ir.scope import Node
from surgeon.rules.matching.compiler import compile_pattern
from surgeon.rules.matching.matcher import find
from surgeon.rules.rule import RuleFunction
from surgeon.rules.tracing.tracer import trace

MAX_LITERALS = 24  # literals that are relaxed
NAME = "freed"  # of the new capture


@dataclass(frozen=True, slots=True)
class RelaxedPattern:
    """A pattern with one literal replaced by a capture."""

    what: str
    """The source text of the literal, and the helper that takes it."""
    function: RuleFunction
    """The pattern function."""


def loosened(written: GeneratedPattern) -> Iterator[RelaxedPattern]:
    """The pattern with each number, list and string in turn as a capture; literals that cannot be one are skipped."""
    text = "\n".join(written.lines)
    body = ast.parse(f"def f():\n{''.join(f'    {line}' + chr(10) for line in written.lines)}").body[0]
    for number, (item, helper, keyword) in enumerate(_fixed(body)):
        if number == MAX_LITERALS:
            return
        value = _value(item)
        kind = _kind(value, keyword)
        if kind is None:
            continue
        literal = ast.unparse(item)
        changed = _replaced(text, item)
        what = f"{keyword}={literal} of {helper}" if keyword else f"{literal} in {helper}"
        yield RelaxedPattern(what, written.function(changed.splitlines(), f"{NAME}: {kind}"))


def _fixed(body: ast.AST) -> Iterator[tuple[ast.expr, str, str]]:
    """Literal arguments of helpers, each with the helper and the keyword; "" for a positional argument."""
    calls = [item for item in ast.walk(body) if isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute)]
    for call in calls:
        helper = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        for place, item in enumerate(call.args):
            if _value(item) is not None and not (helper == "op" and place == 0):
                yield item, helper, ""
        for keyword in call.keywords:
            if keyword.arg and keyword.arg != "outputs" and _value(keyword.value) is not None:
                yield keyword.value, helper, keyword.arg


def _value(item: ast.expr) -> object:
    """The value of a literal: a number, a string, or a list of these; None for an expression with names."""
    if any(isinstance(part, (ast.Name, ast.Call)) for part in ast.walk(item)):
        return None
    try:
        found: object = eval(compile(ast.Expression(item), "<pattern>", "eval"), {"__builtins__": {}})
    except (TypeError, ValueError, ArithmeticError):
        return None
    return found


def _kind(value: object, keyword: str) -> str | None:
    """The annotation of a capture for a value; None if no capture holds it."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (list, tuple)):
        kinds = {type(item) for item in value}
        return f"list[{kinds.pop().__name__}]" if kinds in ({int}, {float}) else None
    if keyword:
        return type(value).__name__ if isinstance(value, (int, float, str)) else None
    return "float" if isinstance(value, (int, float)) else None


def _replaced(text: str, item: ast.expr) -> str:
    """The lines with NAME instead of an expression; they were parsed one line lower and indented by four columns."""
    lines = text.split("\n")
    first, last = item.lineno - 2, (item.end_lineno or item.lineno) - 2
    start, end = item.col_offset - 4, (item.end_col_offset or 0) - 4
    if first == last:
        lines[first] = f"{lines[first][:start]}{NAME}{lines[first][end:]}"
    else:
        lines[first : last + 1] = [f"{lines[first][:start]}{NAME}{lines[last][end:]}"]
    return "\n".join(lines)


def count(index: Index, function: RuleFunction) -> int:
    """Sites of a pattern in a model; each node belongs to at most one."""
    taken: set[Node] = set()
    found = 0
    compiled = [compile_pattern(pattern) for pattern in trace(function)]
    for scope in index.scopes:
        for one in compiled:
            for match in find(index, one, scope, lambda _: True):
                if not taken.intersection(match.nodes):
                    taken.update(match.nodes)
                    found += 1
    return found
