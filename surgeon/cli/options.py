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
from surgeon.cli.param_types import BYTES, NAMED_NUMBER, NAMED_SIZES, OPSET, VARIABLE, ParsedType, TargetName
from surgeon.declarations import REQUIRED, Declared, argument_docs, declared, unaliased

CHECK_OPTIONS = ("surgeon.proof.check_options", "CheckOptions")
_GROUPS = "surgeon.cli.option_groups"
SECTIONS: Mapping[str, Sequence[tuple[str, str]]] = {
    "Options": (),
    "Checks": ((_GROUPS, "CheckChoice"), CHECK_OPTIONS),
    "Files": ((_GROUPS, "Files"),),
    "Output": ((_GROUPS, "Output"),),
}
"""The sections of a command's help, with the types that declare their options."""
MODELS = ("source", "original", "other", "first", "second")
"""Parameters that are models, whose names may be at fault."""

_EXAMPLE = re.compile(r"\s*Example: (surgeon (?:.|\n(?!\n))*)")
_IN_PYTHON = re.compile(r" *\bIn Python, .*?\.(?=\s|$)", re.DOTALL)


class Spelling(NamedTuple):
    """What the type of a parameter does not say of its option."""

    flags: str = ""
    """Its flags, separated by spaces; "" for its name with dashes."""
    metavar: str | None = None
    """The placeholder of its value."""
    type: Any = None
    """The type of a value that click parses."""
    multiple: bool | None = None
    """Whether it may be repeated."""
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
    "baseline": Spelling(metavar="FILE"),
    "custom_ops": Spelling(metavar="LIB"),
    "dims": Spelling("--dim"),
    "engine": Spelling(metavar="NAME"),
    "ep": Spelling(metavar="NAME"),
    "from_": Spelling("--from", "DTYPE"),
    "froms": Spelling("--from", "A,B,...", str, multiple=False, default=OPTIONAL),
    "inline": Spelling(metavar="NAMES"),
    "inputs": Spelling(metavar="PATH"),
    "jobs": Spelling("--jobs -j", "N"),
    "keep": Spelling(metavar="WHAT"),
    "layers": Spelling("--compare-layers"),
    "max_error": Spelling(metavar="X"),
    "model_memory": Spelling(type=BYTES),
    "model_time": Spelling(metavar="SECONDS"),
    "only": Spelling(metavar="PATTERN"),
    "opset": Spelling(metavar="N"),
    "over": Spelling(metavar="MODELS"),
    "parts": Spelling(metavar="N"),
    "plugins": Spelling("--plugin", "OP=PLUGIN[:VERSION]"),
    "proof_time": Spelling(metavar="SECONDS"),
    "quiet": Spelling("--quiet -q"),
    "report_path": Spelling("--report", "FILE"),
    "rows": Spelling(metavar="FILE"),
    "rules": Spelling("--rules -r", "NAMES"),
    "run_time": Spelling(metavar="SECONDS"),
    "runtime": Spelling("--with"),
    "skip": Spelling(metavar="PATTERN"),
    "target": Spelling(type=TargetName()),
    "tos": Spelling("--to", "A,B,...", str, multiple=False, default=OPTIONAL),
    "upgrade": Spelling(metavar="auto|N", type=OPSET),
    "variables": Spelling("--set", type=VARIABLE, multiple=True),
    "verbose": Spelling("--verbose -v"),
}


class DerivedOption(click.Option):
    """An option of a parameter."""

    section: str
    """Its section in the command's help."""
    convert: Callable[[Any], Any] | None
    """Makes the parameter's value of click's, if they differ."""


class DerivedCommand(click.Command):
    """A command whose help begins with its examples, and lists its options by section."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the text."""
        text = cleandoc(self.help or "")
        with formatter.section("Examples"):
            for example in _EXAMPLE.findall(text):
                formatter.write_text(" ".join(example.split()))
        with formatter.indentation():
            formatter.write_paragraph()
            formatter.write_text(_EXAMPLE.sub("", text))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        rows: dict[str, list[tuple[str, str]]] = {"Edits": [], **{title: [] for title in SECTIONS}}
        for item in self.get_params(ctx):
            record = item.get_help_record(ctx) if isinstance(item, click.Option) else None
            if record is not None:
                rows[getattr(item, "section", "Options")].append(record)
        for title, known in rows.items():
            if known:
                with formatter.section(title):
                    formatter.write_dl(known)


def derived_command(
    of: str = "",
    positional: Mapping[str, str] | None = None,
    *,
    without: str = "",
    shared: str = "",
    cls: type[click.Command] = DerivedCommand,
    **spelled: Spelling,
) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function; its options are the parameters of public functions, and its own.

    of: the public functions (`compare`) or types (`module:Name`), separated by spaces.  positional: the placeholders of
    positional arguments by parameter: "IN", "[OUT]" for one that may be absent, "OUT..." for several.  without:
    parameters that are not options.  shared: further options of `SECTIONS`; every command has --json.  spelled:
    differences from `SPELLINGS`.  A parameter `options` stands for the options of checks.
    """

    def decorate(function: Callable[..., None]) -> click.Command:
        left = {*without.split(), *(positional or ()), "options"}
        known = [item for item in _parameters(function, of, shared) if item.name not in left]
        words = argument_docs(cleandoc(function.__doc__ or ""))
        options = [_option(item, words.get(item.name), spelled.get(item.name)) for item in known]
        arguments = [_argument(name, metavar, spelled.get(name)) for name, metavar in (positional or {}).items()]
        takes_checks = any(item.name == "options" for name in of.split() for item in _declarations(name))
        checks = {item.name for item in known if takes_checks and item.module == CHECK_OPTIONS[0]}
        text = re.sub(r"\n+ *Args:\n(?: {8}.*\n|\n)*", "\n", function.__doc__ or "")
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
        known = found.get(item.name) or _shared().get(item.name, ("", item))[1]
        found[item.name] = known if item.default is REQUIRED else item._replace(words=item.words or known.words)
    return [*found.values(), *(_shared()[name][1] for name in (*shared.split(), "as_json"))]


@cache
def _shared() -> Mapping[str, tuple[str, Declared]]:
    """The options of all sections, with their section, by name."""
    return {item.name: (title, item) for title, kinds in SECTIONS.items() for kind in kinds for item in declared(*kind)}


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
    words = " ".join(_IN_PYTHON.sub("", words.replace("`", "")).split())
    return f"{words[:1].upper()}{words[1:]}"


def _option(item: Declared, words: str | None, spelled: Spelling | None) -> DerivedOption:
    """The option of a parameter.  words: the command's own."""
    section, declaration = _shared().get(item.name, ("Options", item))
    spelling = _spelling(item.name, spelled)
    kind, multiple = (spelling.type, False) if spelling.type is not None else _kind(item)
    multiple = multiple if spelling.multiple is None else spelling.multiple
    default = item.default if spelling.default is None else spelling.default
    is_flag, required = kind is bool, default is REQUIRED
    negated = is_flag and default is True
    is_text = kind is str and not multiple
    is_unset = default in (REQUIRED, OPTIONAL, () if is_text else "" if isinstance(kind, click.Choice) else OPTIONAL)
    flags = spelling.flags or f"--{'no-' * negated}{item.name.strip('_').replace('_', '-')}"
    text = _words(item, words or declaration.words)
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
        show_default=not is_flag and not is_unset and default not in (None, "", ()),
        metavar=spelling.metavar,
        help=f"{text.rstrip('.')}; repeatable." if multiple else text,
    )
    is_mapping = kind in (NAMED_NUMBER, NAMED_SIZES, VARIABLE)
    option.convert = dict if is_mapping else operator.not_ if negated else None
    option.section = section if words is None else "Options"
    return option


def _spelling(name: str, spelled: Spelling | None) -> Spelling:
    """The spelling of an option in one command."""
    usual = SPELLINGS.get(name, Spelling())
    if spelled is None:
        return usual
    return usual._replace(**{part: value for part, value in spelled._asdict().items() if value not in (None, "")})


def _for_choices(words: str, choices: Sequence[str]) -> str:
    """The words of a choice, without parts for values that a command does not have: "model: ...; none: ..."."""
    parts = [part.rstrip(".") for part in words.split("; ")]
    return f"{'; '.join(part for part in parts if part.partition(':')[0].lower() in choices)}."


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
    function: Callable[..., None],
    options: Sequence[DerivedOption],
    checks: Collection[str],
) -> Callable[..., None]:
    """The function of a command, which gets values as its parameters want them.

    checks: the options that become one value `options`.
    """
    conversions = {str(item.name): item.convert for item in options if item.convert is not None}

    @functools.wraps(function)
    def run(**given: Any) -> None:
        click.get_current_context().meta[JSON] = given.pop("as_json")
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
