"""Patterns that are a little looser than a learned one: each with one of its numbers or attributes left free."""

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

MOST = 24  # numbers that are tried
NAME = "freed"


@dataclass(frozen=True, slots=True)
class RelaxedPattern:
    """A pattern with one thing free.

    what: that thing, as the pattern has it, and the helper that it is given to.  function: the pattern.
    """

    what: str
    function: RuleFunction


def loosened(written: GeneratedPattern) -> Iterator[RelaxedPattern]:
    """Each number, list and text of a pattern in turn as a capture; what cannot be one is left out."""
    text = "\n".join(written.lines)
    body = ast.parse(f"def f():\n{''.join(f'    {line}' + chr(10) for line in written.lines)}").body[0]
    for number, (item, helper, keyword) in enumerate(_fixed(body)):
        if number == MOST:
            return
        value = _value(item)
        kind = _kind(value, keyword)
        if kind is None:
            continue
        told = ast.unparse(item)
        changed = _replaced(text, item)
        what = f"{keyword}={told} of {helper}" if keyword else f"{told} in {helper}"
        yield RelaxedPattern(what, written.function(changed.splitlines(), f"{NAME}: {kind}"))


def _fixed(body: ast.AST) -> Iterator[tuple[ast.expr, str, str]]:
    """What helpers are given that is no tensor and no capture, the helper, and the name of the argument or ""."""
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
    """A number, a text, or a list of these; None for what is made of names."""
    if any(isinstance(part, (ast.Name, ast.Call)) for part in ast.walk(item)):
        return None
    try:
        found: object = eval(compile(ast.Expression(item), "<pattern>", "eval"), {"__builtins__": {}})
    except (TypeError, ValueError, ArithmeticError):
        return None
    return found


def _kind(value: object, keyword: str) -> str | None:
    """How a capture of the like is annotated; None for what none can be."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (list, tuple)):
        kinds = {type(item) for item in value}
        return f"list[{kinds.pop().__name__}]" if kinds in ({int}, {float}) else None
    if keyword:
        return type(value).__name__ if isinstance(value, (int, float, str)) else None
    return "float" if isinstance(value, (int, float)) else None


def _replaced(text: str, item: ast.expr) -> str:
    """The lines with a name in the place of an expression; they were parsed one line lower and four letters in."""
    lines = text.split("\n")
    first, last = item.lineno - 2, (item.end_lineno or item.lineno) - 2
    start, end = item.col_offset - 4, (item.end_col_offset or 0) - 4
    if first == last:
        lines[first] = f"{lines[first][:start]}{NAME}{lines[first][end:]}"
    else:
        lines[first : last + 1] = [f"{lines[first][:start]}{NAME}{lines[last][end:]}"]
    return "\n".join(lines)


def count(index: Index, function: RuleFunction) -> int:
    """At how many sites of a model a pattern fits, a node belonging to one."""
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
