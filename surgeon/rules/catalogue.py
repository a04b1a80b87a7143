"""Resolves names of rules at the command line: rules of installed packs, files and modules."""

import ast
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

from surgeon.entry_points import entry_points
from surgeon.errors import RuleError, UsageError
from surgeon.printed_commands import command
from surgeon.rules.edit_aliases import EDIT_ALIASES, is_edit_message, split_edit_aliases
from surgeon.rules.functions.function_definition import LocalFunction
from surgeon.rules.rule import Rule
from surgeon.rules.rule import rule as decorator
from surgeon.script_imports import importable
from surgeon.target_registry import target_of
from surgeon.text import close_matches, join_all, suggest_name

RuleSelector = str | Rule | LocalFunction
_Names = Mapping[str, Sequence[str]]


def resolve(names: RuleSelector | Iterable[RuleSelector], *, approximate: bool = True) -> dict[str, tuple[Rule, ...]]:
    """Rules by the name that they were requested by, in order; a local function selects its rule.

    approximate: include rules that change numbers beyond rounding, even if only their file is named.

    A name is a group of an installed pack, a rule file in it (all its rules), one rule, `file:rule`,
    `./file.py`, `./file.py:rule`, `package.module` or `package.module:rule`.  A string may list several with commas,
    and `-name` excludes rules.  A rule that several names resolve to runs at the first of them; by its own name it runs
    on any execution provider.  Raises RuleError for
    an unknown name, with the nearest ones, and for an inconsistent rule outside of packs; UsageError for anything that
    is neither a name nor a rule.
    """
    if isinstance(names, (str, bytes, Rule, LocalFunction)) or not isinstance(names, Iterable):
        names = [names]
    found: dict[str, tuple[Rule, ...]] = {}
    less: list[tuple[Rule, ...]] = []
    texts: set[str] = set()
    for item in names:
        if isinstance(item, LocalFunction):
            item = item.as_rule()
        if isinstance(item, Rule):
            found[item.name] = (*found.get(item.name, ()), item)
            continue
        if not isinstance(item, str):
            raise UsageError(
                f"Expected a rule, the name of one ('gelu', './my_rules.py'), or a list of them; got an object of type "
                f"{type(item).__name__}."
            )
        for name in (part.strip() for part in item.split(",")):
            if name.startswith("-"):
                less.append(_resolve_one(name[1:]))
            elif name:
                texts.add(name)
                found[name] = (*_resolve_one(name), *(_approximate_members(name) if approximate else ()))
    if not found:
        raise RuleError(f"--rules {'selects no rule' if less else 'is empty'}. `{command('rules')}` lists all rules.")
    if less:
        found = _excluded(found, less)
    found = _for_any_provider(found, texts)
    modules = [point.module for point in entry_points()]
    for rule in unique_rules(found):
        if not any(rule.module == module or rule.module.startswith(f"{module}.") for module in modules):
            rule.require_sense()  # the rules of a pack are checked by its own tests
    return found if approximate else {name: _exact(name, rules) for name, rules in found.items()}


def resolve_with_edits(
    names: RuleSelector | Iterable[RuleSelector], *, approximate: bool = True
) -> tuple[dict[str, tuple[Rule, ...]], list[str]]:
    """The rules as `resolve` returns them, and the names of edits among the names; no rules if only edits are named.

    Raises as `resolve`, and UsageError for two edits.
    """
    rules, tails = split_edit_aliases(names)
    return (resolve(rules, approximate=approximate) if rules or not tails else {}), tails


def _exact(name: str, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The rules of a name without the approximate ones that it does not name.  Raises RuleError if none is left."""
    left = tuple(rule for rule in rules if rule.is_exact or rule.name == name.rpartition(":")[2])
    if len(left) < len(rules) and name in groups():
        return rules  # a group holds those that it names
    if rules and not left:
        raise RuleError(
            f"All rules of {name!r} are approximate. Choose one, for example {name}:{rules[0].name}, or allow them all "
            "with --approximate."
        )
    return left


def _excluded(found: dict[str, tuple[Rule, ...]], less: Sequence[tuple[Rule, ...]]) -> dict[str, tuple[Rule, ...]]:
    """The selection without rules.  less: for each excluded name, its rules, of which at least one must be selected."""
    selected = set(unique_rules(found))
    absent = next((rules for rules in less if selected.isdisjoint(rules)), None)
    if absent is not None:
        raise RuleError(f"Rule {min(rule.name for rule in absent)!r} is excluded, but --rules does not select it.")
    gone = set().union(*less)
    left = {name: tuple(rule for rule in rules if rule not in gone) for name, rules in found.items()}
    if not any(left.values()):
        raise RuleError("--rules excludes every rule that it selects. Keep at least one.")
    return left


def _for_any_provider(found: dict[str, tuple[Rule, ...]], names: set[str]) -> dict[str, tuple[Rule, ...]]:
    """The selection in which the rules of these names run on any execution provider, in their groups too."""
    inner = {name.rpartition(":")[2] for name in names}
    rules = {rule for rules in found.values() for rule in rules if rule.ep and rule.name in inner}
    anywhere = {rule: replace(rule, ep=None) for rule in rules}
    return {name: tuple(anywhere.get(rule, rule) for rule in rules) for name, rules in found.items()}


def packs() -> dict[str, list[str]]:
    """Modules of rule files by their pack; those of a package are not imported yet."""
    found: dict[str, list[str]] = {}
    for point in entry_points():
        try:
            spec = importlib.util.find_spec(point.module)
        except ModuleNotFoundError:  # a parent package is missing
            spec = None
        if spec is None:
            raise RuleError(f"Rule pack {point.name!r} points to {point.module!r}, which is not installed.")
        if spec.submodule_search_locations is None:
            found.setdefault(point.name, []).append(point.module)
            continue
        folders = importlib.import_module(point.module).__path__  # a package may set its own __path__
        modules = sorted(chain.from_iterable(map(_modules_in, folders)))
        found.setdefault(point.name, []).extend([f"{point.module}.{name}" for name in modules])
    return found


def _modules_in(folder: str) -> list[str]:
    """The rule modules in a folder and in the packages below it, by their names there, as "norms.layer_norm"."""
    found: list[str] = []
    changed = os.stat(folder).st_mtime_ns if os.path.isdir(folder) else 0  # inside an archive nothing changes
    for name, is_package in _listed(folder, changed):
        if is_package:
            found += [f"{name}.{inner}" for inner in _modules_in(os.path.join(folder, name))]
        else:
            found.append(name)
    return found


@cache
def _listed(folder: str, changed: int) -> tuple[tuple[str, bool], ...]:
    """Names of the modules and packages of a folder that do not begin with `_`.  changed: its mtime (ns)."""
    return tuple([(item.name, item.ispkg) for item in pkgutil.iter_modules([folder]) if item.name[0] != "_"])


def _pack_table(module: str, name: str) -> Mapping[str, Any]:
    """The table GROUPS, PURPOSES, APPROXIMATE, RENAMED, FAMILIES or FORMS of a pack's module; empty if it has none."""
    table: Mapping[str, Any] = getattr(_import(module), name, {})
    return table


def groups() -> dict[str, list[str]]:
    """The groups of all packs, from their `GROUPS`: files and rules, in order; groups of one name are joined."""
    found: dict[str, list[str]] = {}
    for point in entry_points():
        for name, members in _pack_table(point.module, "GROUPS").items():
            found.setdefault(name, []).extend(members)
    return found


def families() -> dict[str, tuple[str, ...]]:
    """The families of all packs, from their `FAMILIES`: beginnings of the names of their modules."""
    tables = [(point.module, _pack_table(point.module, "FAMILIES")) for point in entry_points()]
    return {
        name: tuple(f"{module}.{folder}." for folder in folders)
        for module, table in tables
        for name, folders in table.items()
    }


def forms() -> dict[str, Mapping[str, Sequence[str]]]:
    """By choice, the forms of one fusion, each with the names of its rules, from the `FORMS` of all packs."""
    return {name: found for point in entry_points() for name, found in _pack_table(point.module, "FORMS").items()}


def default_group(target: str) -> str:
    """The group of rules for a target: that of its name, or of the target that it equals, or "ort"."""
    return next((name for name in (target, target_of(target).like) if name in groups()), "ort")


def purposes() -> dict[str, str]:
    """The purpose of each group of all packs, from their `PURPOSES`; its members if it has none."""
    known = {name: text for point in entry_points() for name, text in _pack_table(point.module, "PURPOSES").items()}
    return known | {name: ", ".join(members) for name, members in groups().items() if name not in known}


def _approximate_members(name: str) -> Iterator[Rule]:
    """The rules that join a group if approximate rules are requested, as in the packs' `APPROXIMATE`."""
    members = [_pack_table(point.module, "APPROXIMATE").get(name, ()) for point in entry_points()]
    known_packs = packs() if any(members) else {}
    for member in chain.from_iterable(members):
        yield from _resolve_one(member, known_packs)


def _members(name: str, known: _Names, known_packs: _Names, within: tuple[str, ...] = ()) -> Iterator[Rule]:
    """The rules of a group, nested groups included; approximate ones only if they are named themselves."""
    if name in within:
        way = " > ".join((*within, name))
        raise RuleError(f"The rule group {name!r} contains itself ({way}). Correct GROUPS in the rule pack.")
    for member in known[name]:
        if member in known:
            yield from _members(member, known, known_packs, (*within, name))
        else:
            inner = member.rpartition(":")[2]
            yield from (rule for rule in _resolve_one(member, known_packs) if rule.is_exact or rule.name == inner)


def all_rules(known_packs: _Names | None = None) -> Iterator[tuple[str, str, Rule]]:
    """(pack, module, rule) for every rule of every installed pack.  known_packs: the result of `packs`."""
    for pack, modules in (packs() if known_packs is None else known_packs).items():
        for module in modules:
            for rule in rules_of(importlib.import_module(module)):
                yield pack, module, rule


def rules_of(module: ModuleType) -> tuple[Rule, ...]:
    """The rules that a module defines, by themselves or in tuples, in the order of their definition."""
    held = (item if isinstance(item, tuple) else (item,) for item in vars(module).values())
    rules = (item for items in held for item in items if isinstance(item, Rule))
    return tuple(dict.fromkeys(rule for rule in rules if rule.module == module.__name__))


def function_rules_of(module: ModuleType) -> tuple[Rule, ...]:
    """The rules of the local functions that a module defines."""
    functions = dict.fromkeys(value for value in vars(module).values() if isinstance(value, LocalFunction))
    return tuple(item.as_rule() for item in functions if item.__module__ in ("", module.__name__))


def _split_name(name: str) -> tuple[str, str]:
    """The place of rules, and the name of one of them; "" for all."""
    place, colon, inner = name.rpartition(":")
    return (place, inner) if colon and not name.endswith(".py") else (name, "")  # not the colon of C:\\rules.py


def file_of(name: str) -> Path | None:
    """The rule file that a name refers to; None for a name of a pack or a module."""
    place, _ = _split_name(name)
    return Path(place) if place.endswith(".py") or "/" in place else None


def _resolve_one(name: str, known_packs: _Names | None = None) -> tuple[Rule, ...]:
    """The rules of one name.  known_packs: the result of `packs`, to resolve many names."""
    place, inner = _split_name(name)
    file = file_of(name)
    if file is not None:
        return _pick(_from_file(file), inner, place)
    known_packs = packs() if known_packs is None else known_packs
    owners = [module for modules in known_packs.values() for module in modules if module.rpartition(".")[2] == place]
    if len(owners) > 1:
        raise RuleError(f"Several rule packs have {place!r}. Choose one: {', '.join(owners)}")
    if owners:
        return _pick(importlib.import_module(owners[0]), inner, place)
    if "." in place:
        return _pick(_import(place), inner, place)
    known = groups()
    if place in known and not inner:
        return tuple(dict.fromkeys(_members(place, known, known_packs)))
    named = [(module, rule) for _, module, rule in all_rules(known_packs) if rule.name == place]
    if len(named) > 1:
        ways = ", ".join(f"{module}:{place}" for module, _ in named)
        raise RuleError(f"Several rules are named {place!r}. Choose one: {ways}")
    if not named or inner:
        raise RuleError(_unknown(place))
    return (named[0][1],)


def _pick(module: ModuleType, inner: str, place: str) -> tuple[Rule, ...]:
    rules = rules_of(module)
    if inner not in {rule.name for rule in rules} and (inner or not rules):  # local functions are rules if requested
        rules = (*rules, *function_rules_of(module))
    if not inner:
        if not rules:
            raise RuleError(f"{place} defines no rule. Decorate a function with @surgeon.rule(patterns=[...]).")
        return rules
    chosen = tuple(rule for rule in rules if rule.name == inner)
    if not chosen:
        raise RuleError(f"{place} has no rule {inner!r}. Its rules: {', '.join(rule.name for rule in rules) or 'none'}")
    return chosen


def is_known(name: str) -> bool:
    """Whether a name is that of an installed rule, rule file or group, or of an edit."""
    return name in EDIT_ALIASES or name in _installed()


def _installed() -> set[str]:
    """The names of all installed rules, rule files and groups."""
    files = {module.rpartition(".")[2] for modules in packs().values() for module in modules}
    return {*(rule.name for _, _, rule in all_rules()), *files, *groups()}


def _unknown(name: str) -> str:
    if name in EDIT_ALIASES:
        return is_edit_message(name)
    names = _installed()
    renamed = [_pack_table(point.module, "RENAMED").get(name) for point in entry_points()]
    near = [new for new in renamed if new in names] or close_matches(name, sorted(names), cutoff=0.5)
    all_of_them = f"`{command('rules')}` lists all {len(names)} names."
    hint = f"Did you mean {join_all([*map(repr, near)], 'or')}?" if near else all_of_them
    return f"No rule named {name!r}. {hint} For a rule file, give its path: ./{name}.py"


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise RuleError(f"Module {name!r} was not found. Check its name, or install it.") from None
        raise


def _from_file(path: Path) -> ModuleType:
    if path.is_dir():
        raise RuleError(f"{path} is a folder. Give a rule file in it.")
    if not path.is_file():
        raise RuleError(f"Rule file not found: {path}")
    version = path.stat()  # read an edited file again
    name = (
        f"{_pack_of(path)}surgeon_rules_{path.stem}_{abs(hash((path.resolve(), version.st_mtime_ns, version.st_size)))}"
    )
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RuleError(f"{path} is not a Python file. Rename it so that it ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    done = False
    try:
        with nullcontext() if "." in name else importable(path.parent):  # a file of a pack imports through its package
            spec.loader.exec_module(module)
        _require_distinct(path)
        done = True
    except RuleError as error:
        if path.name not in str(error):
            error.args = (f"{_line(path, error)}: {error}",)
        raise
    except (Exception, SystemExit) as error:
        raise RuleError(f"Rule file {path} {_describe_error(path, error)}") from error
    finally:
        if not done:
            del sys.modules[name]
    return module


def _require_distinct(path: Path) -> None:
    """Raise RuleError if two rules of a file have the same function name, so that one replaces the other."""
    known: dict[str, int] = {}
    for item in ast.parse(path.read_bytes()).body:
        calls = [one.func for one in getattr(item, "decorator_list", ()) if isinstance(one, ast.Call)]
        if isinstance(item, ast.FunctionDef) and any(ast.unparse(call) in ("rule", "surgeon.rule") for call in calls):
            if item.name in known:
                raise RuleError(
                    f"{path.name}:{item.lineno}: rule {item.name} replaces the rule of the same name in line "
                    f"{known[item.name]}. Rename one of the two functions."
                )
            known[item.name] = item.lineno


def _describe_error(path: Path, error: BaseException) -> str:
    """The error of a rule file, with its line and, if known, a remedy."""
    kind, text = type(error).__name__, str(error).rstrip(".") + suggest_name(error)
    if isinstance(error, OSError) and error.filename == os.path.abspath(path):
        return f"cannot be read: {error.strerror}."
    if isinstance(error, SyntaxError):  # it has its own position, perhaps in an imported file
        where = f" ({Path(error.filename or path).name}:{error.lineno})" if error.lineno else ""
        return f"raised {kind}: {error.msg}{where}."
    if isinstance(error, ImportError) and "relative import" in text:  # a copy of a pack's file
        example = "from surgeon.patterns._common.floats import is_not_float64"
        return f"raised {kind}: {text}: write the name of the pack before the dot, for example {example}."
    line = _line(path, error).partition(":")[2]
    where = f" ({path.name}:{line})" if line else ""
    if text == "rule() takes 0 positional arguments but 1 was given":
        return f"raised {kind}: {text}{where}. Decorate a function with @rule(patterns=[...])."
    unknown = re.fullmatch(r"rule\(\) got an unexpected keyword argument '(\w+)'", text)
    near = close_matches(unknown[1], inspect.signature(decorator).parameters, 1) if unknown else []
    return f"raised {kind}: {text}{where}.{f' Did you mean {near[0]}=?' if near else ''}"


def _line(path: Path, error: BaseException) -> str:
    """file:line of the last line of a rule file that ran; only the file if none did."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if os.path.realpath(frame.filename) == os.path.realpath(path)]
    return f"{path.name}:{lines[-1]}" if lines else path.name


def _pack_of(path: Path) -> str:
    """The pack that contains a rule file, with a trailing dot, so that its relative imports work."""
    for point in entry_points():
        for folder in getattr(_import(point.module), "__path__", ()):
            if Path(folder).resolve() == path.resolve().parent:
                return f"{point.module}."
    return ""


def unique_rules(selection: dict[str, tuple[Rule, ...]]) -> Sequence[Rule]:
    """The rules of a selection, each once, in order."""
    return list(dict.fromkeys(rule for rules in selection.values() for rule in rules))
