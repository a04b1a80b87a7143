"""Commands whose options are derived from the functions and types that take their values.

An option has the name, the type, the default and the words of a parameter.  `SPELLINGS` adds what a type cannot say.
"""

import ast
import functools
import operator
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from inspect import cleandoc
from typing import Any, NamedTuple

import click

from surgeon.cli.command_group import JSON
from surgeon.cli.help_page import SECTIONS, HelpPage
from surgeon.cli.param_types import BYTES, NAMED_NUMBER, NAMED_SIZES, OPSET, VARIABLE, ParsedType, TargetName
from surgeon.declarations import REQUIRED, Declared, argument_docs, declared, unaliased, without_python
from surgeon.target_registry import OWN

CHECK_OPTIONS = ("surgeon.proof.check_options", "CheckOptions")
SHARED = (*(("surgeon.cli.option_groups", kind) for kind in ("CheckChoice", "Files", "Output")), CHECK_OPTIONS)
"""The types that declare the options of several commands."""
MODELS = ("source", "original", "other", "first", "second")
"""Parameters that are models, whose names may be at fault."""


class Spelling(NamedTuple):
    """Properties of an option that the type of its parameter does not have."""

    flags: str = ""
    """Its flags, separated by spaces; "" for its name with dashes."""
    metavar: str | None = None
    """The placeholder of its value."""
    type: Any = None
    """The type of a value that click parses."""
    multiple: bool | None = None
    """Whether it may be repeated."""
    section: str = ""
    """The section of the help, for an option that another command has in another one."""
    default: Any = None
    """A default in place of the parameter's, or REQUIRED; OPTIONAL for a parameter without one that may be absent."""


OF_SITES = "proof_time jobs cache coverage"
"""Options of checks that only proofs of sites read."""
OPTIONAL = object()
"""The default of an option that may be absent, although its parameter has no default."""
SPELLINGS: Mapping[str, Spelling] = {
    "as_json": Spelling("--json"),
    "assume": Spelling(metavar="'NAME: WORDS'"),
    "attributes": Spelling("--attr", "NAME[:TYPE]=VALUE", str, multiple=True),
    "dims": Spelling("--dim"),
    "ep_library": Spelling(metavar="MODULE|NAME=PATH"),
    "external_data": Spelling(metavar="MODE|FILE", type=str),
    "fold_limit": Spelling(type=BYTES),
    "from_": Spelling("--from", "DTYPE"),
    "froms": Spelling("--from", "A,B,...", str, multiple=False, default=OPTIONAL),
    "jobs": Spelling("--jobs -j", "N"),
    "layers": Spelling("--compare-layers"),
    "model_memory": Spelling(type=BYTES),
    "plugins": Spelling("--plugin", "OP=PLUGIN[:VERSION]"),
    "quiet": Spelling("--quiet -q"),
    "report_path": Spelling("--report", "FILE"),
    "rules": Spelling("--rules -r", "NAMES"),
    "runtime": Spelling("--with", "NAME"),
    "target": Spelling(metavar="NAME", type=TargetName()),
    "tos": Spelling("--to", "A,B,...", str, multiple=False, default=OPTIONAL),
    "upgrade": Spelling(metavar="auto|N", type=OPSET),
    "variables": Spelling("--set", type=VARIABLE, multiple=True),
    "verbose": Spelling("--verbose -v"),
}
METAVARS = {
    "FILE": "baseline custom_ops junit markdown rows sarif",
    "MODE": "check",
    "MODELS": "over",
    "N": "sm",
    "NAMES": "inline",
    "PATH": "inputs",
    "PATTERN": "only skip",
    "SECONDS": "model_time proof_time run_time",
    "WHAT": "keep",
}
"""Placeholders of other values, with their parameters; types have NAME, N, X, or their choices."""


class DerivedOption(click.Option):
    """An option of a parameter."""

    section: str
    """Its section in the command's help."""
    convert: Callable[[Any], Any] | None
    """Converts click's value to the parameter's, if they differ."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the flags and the text, which has the default already; installed targets follow."""
        record = super().get_help_record(ctx)
        others = [name for name in self.type.choices if name not in OWN] if isinstance(self.type, TargetName) else []
        more = f" Installed: {', '.join(others)}." if others else ""
        return None if record is None else (record[0], f"{self.help}{more}")


def derived_command(
    of: str = "",
    positional: Mapping[str, str] | None = None,
    *,
    without: str = "",
    shared: str = "",
    cls: type[click.Command] = HelpPage,
    **spelled: Spelling,
) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function; its options are the parameters of public functions, and its own.

    of: the public functions (`compare`) or types (`module:Name`), separated by spaces.  positional: the placeholders of
    positional arguments by parameter: "IN", "[OUT]" for one that may be absent, "OUT..." for several.  without:
    parameters that are not options.  shared: further options of `SHARED`; as_json is always one of them.  spelled:
    differences from `SPELLINGS`.  A parameter `options` means the options of checks.
    """

    def decorate(function: Callable[..., None]) -> click.Command:
        left = {*without.split(), *(positional or ()), "options"}
        known = [item for item in _parameters(function, of, shared) if item.name not in left]
        words = argument_docs(cleandoc(function.__doc__ or ""))
        options = [_option(item, words.get(item.name), spelled.get(item.name)) for item in known]
        arguments = [_argument(name, metavar, spelled.get(name)) for name, metavar in (positional or {}).items()]
        takes_checks = any(item.name == "options" for name in of.split() for item in _declarations(name))
        checks = {item.name for item in known if takes_checks and item.module == CHECK_OPTIONS[0]}
        text = re.sub(r"\n+ *Args:\n(?: {8}.*\n)*", "\n", function.__doc__ or "")
        callback = _callback(function, options, checks)
        return cls(function.__name__, callback=callback, params=[*arguments, *options], help=text)

    return decorate


def _parameters(function: Callable[..., None], of: str, shared: str) -> Sequence[Declared]:
    """The parameters of public functions and types, then those of a command; the first that has a type counts."""
    found: dict[str, Declared] = {}
    for item in (item for name in of.split() for item in _declarations(name)):
        for part in declared(*CHECK_OPTIONS) if item.name == "options" else [item]:
            found.setdefault(part.name, part)
    for item in declared(function.__module__, function.__name__):
        known = found.get(item.name) or _shared().get(item.name, item)
        found[item.name] = known if item.default is REQUIRED else item._replace(words=item.words or known.words)
    return [*found.values(), *(_shared()[name] for name in (*shared.split(), "as_json"))]


@cache
def _shared() -> Mapping[str, Declared]:
    """The options of several commands, by name."""
    return {item.name: item for kind in SHARED for item in declared(*kind)}


def _declarations(name: str) -> Sequence[Declared]:
    """The parameters of a public function, or the fields of a type that is named with its module."""
    module, _, kind = name.rpartition(":")
    return declared(module or "surgeon", kind)


def _words(item: Declared, words: str) -> str:
    """The words of an option, without sentences for Python; those of `rewrite` for "as for `rewrite`".

    The function is public, or of the same module.
    """
    there = re.search(r"^as for `(\w+)`", words)
    if there is not None:
        others = (*_declarations(there[1]), *declared(item.module, there[1]))
        words = next(other.words for other in others if other.name == item.name)
    words = without_python(words)
    return words if re.match(r"\w+: ", words) else f"{words[:1].upper()}{words[1:]}"


def _option(item: Declared, words: str | None, spelled: Spelling | None) -> DerivedOption:
    """The option of a parameter.  words: the command's own."""
    spelling = _spelling(item.name, spelled)
    kind, multiple = (spelling.type, False) if spelling.type is not None else _kind(item)
    multiple = multiple if spelling.multiple is None else spelling.multiple
    default = item.default if spelling.default is None else spelling.default
    is_flag, required = kind is bool, default is REQUIRED
    negated = is_flag and default is True
    is_text = kind is str and not multiple
    is_unset = default in (REQUIRED, OPTIONAL, () if is_text else "" if isinstance(kind, click.Choice) else OPTIONAL)
    flags = spelling.flags or f"--{'no-' * negated}{item.name.strip('_').replace('_', '-')}"
    text = _words(item, words or _shared().get(item.name, item).words)
    text = f"Do not {text[:1].lower()}{text[1:]}" if negated and words is None else text
    text = _for_choices(text, kind.choices) if item.name == "check" else text
    given: dict[str, Any] = {} if required else {"default": False if is_flag else None if is_unset else default}
    option = DerivedOption(
        [*flags.split(), item.name],
        type=None if is_flag else kind,
        is_flag=is_flag,
        multiple=multiple,
        required=required,
        **given,
        metavar=spelling.metavar or (None if is_flag else _metavar(item.name, kind)),
        help=_with_default(text, "" if is_flag or is_unset else default, multiple=multiple, required=required),
    )
    is_mapping = kind in (NAMED_NUMBER, NAMED_SIZES, VARIABLE)
    option.convert = dict if is_mapping else operator.not_ if negated else None
    homes = (title for title, names in SECTIONS.items() if item.name in names.split())
    option.section = spelling.section or next(homes, "Options")
    return option


def _metavar(name: str, kind: Any) -> str | None:
    """The placeholder of a value by its name or its type; click's own for other types."""
    found = next((metavar for metavar, names in METAVARS.items() if name in names.split()), None)
    if found is not None or not isinstance(kind, click.Choice):
        return found or {float: "X", int: "N", str: "NAME"}.get(kind, "N" if isinstance(kind, click.IntRange) else None)
    return "|".join(map(str, kind.choices))


def _with_default(text: str, default: Any, *, multiple: bool, required: bool) -> str:
    """The text of an option, with a last sentence for its default unless the text has one."""
    before, sign, own = text.partition(" Default: ")
    values = default if isinstance(default, tuple) else () if default in (None, "") else (default,)
    usual = ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
    last = f" Default: {own or f'{usual}.'}" if sign or usual else " Required." if required else ""
    return f"{before}{' Repeatable.' if multiple else ''}{last}"


def _spelling(name: str, spelled: Spelling | None) -> Spelling:
    """The spelling of an option in one command."""
    usual = SPELLINGS.get(name, Spelling())
    if spelled is None:
        return usual
    return usual._replace(**{part: value for part, value in spelled._asdict().items() if value not in (None, "")})


def _for_choices(words: str, choices: Sequence[str]) -> str:
    """The sentences for the values that a command has: "model: .... none: ....".  Other texts stay as they are."""
    parts = re.split(r"(?<=\.) (?=[a-z]+: )", words)
    return " ".join(part for part in parts if len(parts) == 1 or part.partition(":")[0].lower() in choices)


def _kind(item: Declared) -> tuple[Any, bool]:
    """The type of a value for click, and whether there may be several."""
    kinds = {
        ast.unparse(member.value) if isinstance(member, ast.Subscript) else ast.unparse(member): member
        for member in unaliased(item.annotation, item.module)
    }
    for name, member in kinds.items():
        match name, member:
            case "Literal", ast.Subscript(slice=ast.Tuple(choices)):
                return click.Choice([text for text in map(ast.literal_eval, choices) if text]), False
            case (("Sequence" | "Iterable" | "tuple"), ast.Subscript(slice=of)):
                kind, _ = _kind(item._replace(annotation=of.elts[0] if isinstance(of, ast.Tuple) else of))
                return str if isinstance(kind, ParsedType) else kind, True
    if "Mapping" in kinds:
        is_number = ast.unparse(kinds["Mapping"]).endswith(", int]")
        return NAMED_NUMBER if is_number else NAMED_SIZES, True
    return next((kind for kind in (bool, str, float, int) if kind.__name__ in kinds), str), False


def _argument(name: str, metavar: str, spelled: Spelling | None) -> click.Argument:
    """The positional argument of a parameter."""
    plain = metavar.strip("[]")
    kind = None if spelled is None else spelled.type
    several = plain.endswith("...")
    required = plain == metavar and (spelled is None or spelled.default is not OPTIONAL)
    return click.Argument([name], required=required, nargs=-1 if several else 1, metavar=metavar or None, type=kind)


def _callback(
    function: Callable[..., None], options: Sequence[DerivedOption], checks: Collection[str]
) -> Callable[..., None]:
    """The function of a command, which gets values as its parameters want them.

    checks: the options that become one value `options`.
    """
    conversions = {str(item.name): item.convert for item in options if item.convert is not None}

    @functools.wraps(function)
    def run(**given: Any) -> None:
        click.get_current_context().meta[JSON] = given.pop("as_json", False)
        values = given | {name: convert(given[name]) for name, convert in conversions.items()}
        if checks:
            from surgeon.proof.check_options import CheckOptions

            values["options"] = CheckOptions(**{name: values.pop(name) for name in checks})
            if values["check"] != "none" and not values.get("dry_run"):
                # Imported here: other commands do not need numpy.
                from surgeon.runtime.processes.worker_pool import prefork_workers

                prefork_workers(values["options"].jobs if "jobs" in checks else 1)
        try:
            function(**values)
        except click.exceptions.Exit:
            raise
        except (AttributeError, TypeError, ValueError, RuntimeError):  # RuntimeError from a child process
            _check_names(values.get(name) for name in MODELS)
            raise

    return run


def _check_names(paths: Iterable[Any]) -> None:
    """Raise an error for names in models that are not UTF-8, which protobuf returns as bytes.

    Checking all names before the work would be slow.
    """
    from surgeon.file.model import Model

    for path in paths:
        if isinstance(path, str) and os.path.isfile(path):
            with Model.open(path) as model:
                model.check_names()
