"""The ops that built-in rules require, from earlier runs: a rule whose ops a model lacks is not traced.

Tracing 150 rules takes longer than the rest of a run over a small model.  Rules of other packages are traced in each
run, because the sources of their patterns are unknown.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Self

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from surgeon.entry_points import OWN_RULES
from surgeon.file.io.cache_folder import cache_folder, mark_used, read_entry, trim_folder, write_entry
from surgeon.ir.scope import Scope
from surgeon.rules.rule import Rule, RuleFunction, RulePlan
from surgeon.target_registry import target_of

SUFFIX = ".ops"
MAX_ENTRY = 1 << 20  # bytes of one table; that of all rules for four targets takes a third
MAX_BYTES = 8 * MAX_ENTRY  # those of several installed versions
_HOME = Path(__file__).parents[1]
_TRACED_BY = ("ir", "ops", "rules")  # packages whose code decides what a pattern is traced to


class OpTable:
    """The required ops of each rule for each target; one file for each version of the sources."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, Sequence[Sequence[Sequence[str]]]] = {}  # of each pattern groups, of each group ops
        self._names: dict[tuple[int, str], str] = {}
        self._is_new = False
        text = read_entry(path, MAX_ENTRY)
        if text is not None:
            mark_used(path)
            self._known = json.loads(text)

    @classmethod
    def open(cls) -> Self | None:
        """The table of the installed sources; None without a folder for it."""
        root = cache_folder()
        return None if root is None else cls(root / "rules" / f"{_sources_key()}{SUFFIX}")

    def may_fire(self, rule: Rule, target: str, scope: Scope) -> bool:
        """Whether a scope has the ops of a pattern of a rule; True if these are unknown."""
        known = self._known.get(self._name(rule, target))
        return known is None or any(all(map(scope.has_any, groups)) for groups in known)

    def learn(self, rule: Rule, target: str, plan: object) -> None:
        """Add what a rule requires.  plan: the result of `Rule.plan`."""
        name = self._name(rule, target)
        if name and name not in self._known and rule.search is None:
            sources = plan.sources if isinstance(plan, RulePlan) else ()
            self._known[name] = [sorted(map(sorted, compiled.required)) for compiled in sources]
            self._is_new = True

    def save(self) -> None:
        """Write the added rules.  If the system refuses, the next run adds them again."""
        if not self._is_new:
            return
        with suppress(OSError):
            text = json.dumps(self._known, separators=(",", ":")).encode()
            if write_entry(self._path, text, MAX_ENTRY):
                trim_folder(self._path.parent, SUFFIX, MAX_BYTES)
        self._is_new = False

    def _name(self, rule: Rule, target: str) -> str:
        """The key of a rule; empty for one with a function of another package."""
        place = id(rule), target
        if place not in self._names:
            functions = list(rule.patterns)
            for form in rule.forms:
                functions += [form.function, *(form.patterns or ())]
            kinds = [form.kind for form in rule.forms]
            is_own = all(_is_own(function) for function in functions)
            wanted = target_of(target)
            said = (rule.module, rule.name, rule.lacking, target, wanted.writes, wanted.runs, kinds)
            content = repr((*said, [*map(_place, functions)])).encode()
            self._names[place] = blake2b(content, digest_size=8).hexdigest() if is_own else ""
        return self._names[place]


def _is_own(function: RuleFunction) -> bool:
    return f"{function.__module__}.".startswith(f"{OWN_RULES}.")


def _place(function: RuleFunction) -> tuple[str, str, int]:
    return function.__module__, function.__qualname__, function.__code__.co_firstlineno


def _sources_key() -> str:
    """A hash of the versions and sources on which traces depend; of a file its size and time, as Python's bytecode."""
    folders = [str(_HOME), *(str(_HOME / name) for name in _TRACED_BY), *sys.modules[OWN_RULES].__path__]
    files = [*_files(folders[0], is_deep=False), *(file for folder in folders[1:] for file in _files(folder))]
    used = (sys.version, onnx.__version__, np.__version__, gs.__version__, sorted(files))
    return blake2b(repr(used).encode(), digest_size=16).hexdigest()


def _files(folder: str, *, is_deep: bool = True) -> Iterator[tuple[str, int, int]]:
    """The paths of the sources and tables in a folder, their sizes, and the times of their last change (ns)."""
    with os.scandir(folder) as found:
        for entry in found:
            if is_deep and entry.is_dir() and entry.name != "__pycache__":
                yield from _files(entry.path)
            elif entry.name.endswith((".py", ".json", ".txt")):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns
