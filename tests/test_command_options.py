"""The options of commands, which are derived: all of them, their words, and what their help imports.

`python -m tests.test_command_options` writes the table of all options anew.
"""

import csv
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from surgeon.cli.app import main
from surgeon.cli.help_page import EXIT_CODES, SECTIONS, HelpPage
from surgeon.diagnostics.target_check import checkable_targets
from tests.command_line import ROOT, surroundings
from tests.test_startup import imported

TABLE = Path(__file__).with_name("command_options.csv")
COLUMNS = ("command", "flags", "type", "multiple", "default", "choices", "required")
LIBRARIES = {"onnx", "numpy", "onnxruntime", "onnx_graphsurgeon", "rich", "torch"}
# One flag of two meanings: a cut and a dtype; an output to append to and a file; where a model runs and what is proved.
OF_TWO_MEANINGS = {"--from", "--to", "--keep", "--name", "--output", "--jobs", "--ep", "--target", "--opset", "--with"}
OF_TWO_MEANINGS |= {"--dtype", "--dim"}  # sizes of generated inputs, and of a TensorRT engine
OF_TWO_MEANINGS |= {"--at"}  # tensors to cut at, and a shape of the inputs
OF_TWO_MEANINGS |= {"--last-logits"}  # an edit, and a setting of a folder
OF_TWO_MEANINGS |= {"--rules"}  # convert runs none by default
CONTEXT = click.Context(main, info_name="surgeon", **main.context_settings)


def commands() -> Iterator[tuple[str, click.Command]]:
    """All commands but those within one."""
    for name in main.list_commands(CONTEXT):
        found = main.get_command(CONTEXT, name)
        assert found is not None
        yield name, found


def parameters() -> Iterator[tuple[str, click.Parameter]]:
    """The parameters of all commands; the hidden values of options distinguish edits."""
    for name, found in commands():
        for item in found.get_params(click.Context(found, info_name=name, parent=CONTEXT)):
            if item.expose_value or isinstance(item, click.Argument):
                yield name, item


def row(command: str, item: click.Parameter) -> tuple[str, ...]:
    """The row of a parameter in the table; versions of click differ in what they hold for no default."""
    flags = " ".join(sorted(item.opts)) if isinstance(item, click.Option) else f"<{item.metavar}>"
    is_flag, multiple = getattr(item, "is_flag", False), getattr(item, "multiple", item.nargs == -1)
    choices, default = getattr(item.type, "choices", ()), item.default
    empty = default in (None, (), False) or not isinstance(default, (str, int, float, tuple))
    kind = "flag" if is_flag else "choice" if choices else item.type.name
    found = (kind, multiple, "" if (empty and default != 0) or is_flag else default, "|".join(choices), item.required)
    return (command, flags, *map(str, found))


REQUIRED = [(name, item.opts[0]) for name, item in parameters() if isinstance(item, click.Option) and item.required]


def test_the_options_are_those_of_the_table() -> None:
    """A parameter that a public function gets is an option: the table says so, or the command leaves it out."""
    with TABLE.open(encoding="utf-8", newline="") as stream:
        known = [tuple(item.values()) for item in csv.DictReader(stream)]
    assert sorted(row(*item) for item in parameters()) == sorted(known)


def test_an_option_says_the_same_everywhere() -> None:
    """One text and one section for each flag, but for those that mean two things."""
    texts, sections = defaultdict(set), defaultdict(set)
    for _, item in parameters():
        if isinstance(item, click.Option) and not OF_TWO_MEANINGS.intersection(item.opts):
            texts[item.opts[0]].add((item.help or "").replace(" Repeatable.", "").replace(" Required.", ""))
            sections[item.opts[0]].add(getattr(item, "section", "Options"))
    del texts["--check"]  # it says what the values mean that a command has
    assert {flag: found for flag, found in texts.items() if len(found) > 1} == {}
    assert {flag: found for flag, found in sections.items() if len(found) > 1} == {}
    assert {section for found in sections.values() for section in found} == set(SECTIONS) - {"Edits"}


def test_every_option_says_something() -> None:
    """A sentence that begins with a capital letter, or with the value that it is about."""
    for name, item in parameters():
        if isinstance(item, click.Option):
            assert item.help, f"{name} {item.opts}"
            assert item.help.strip().endswith("."), f"{name} {item.opts}: {item.help}"
            assert "`" not in item.help, f"{name} {item.opts}: {item.help}"
            assert "In Python" not in item.help, f"{name} {item.opts}: {item.help}"


@pytest.mark.parametrize(("name", "flag"), REQUIRED)
def test_an_option_without_a_default_is_required(name: str, flag: str) -> None:
    """It has to be given, also where all arguments are."""
    found = main.get_command(CONTEXT, name)
    assert found is not None
    files = ["file"] * sum(isinstance(item, click.Argument) for item in found.params)
    others = [word for command, other in REQUIRED if command == name and other != flag for word in (other, "1")]
    with pytest.raises(click.MissingParameter) as raised:
        found.make_context(name, [*files, *others], CONTEXT)
    assert f"Missing option '{flag}'" in raised.value.format_message()


def all_commands() -> Iterator[tuple[str, click.Command]]:
    """All commands, by the words that a user types, with those of groups."""
    for name, found in commands():
        yield name, found
        if isinstance(found, click.Group):
            yield from ((f"{name} {inner}", item) for inner, item in found.commands.items())


HELP = {"": main.get_help(CONTEXT)} | {
    name: found.get_help(click.Context(found, info_name=f"surgeon {name}", terminal_width=80, **main.context_settings))
    for name, found in all_commands()
}
ALL = pytest.mark.parametrize("name", HELP, ids=lambda name: f"surgeon {name}".strip())


@ALL
def test_a_help_has_an_example_that_parses(name: str) -> None:
    """Before its options and in one line, which can be pasted; placeholders for files are names of files."""
    before = HELP[name].partition(":\n")[0]
    examples = [line.partition("Example: ")[2] for line in before.splitlines() if "Example: " in line]
    assert examples, name
    for example in examples:
        program, *words = shlex.split(example)
        assert program == "surgeon"
        assert example.startswith(f"surgeon {name}".strip())
        parsed, inner = main.make_context("surgeon", words), main
        while isinstance(inner, click.Group):
            word, inner, words = inner.resolve_command(parsed, [*parsed._protected_args, *parsed.args])
            assert inner is not None
            parsed = inner.make_context(word, words, parent=parsed)


@ALL
def test_a_help_ends_with_its_exit_codes(name: str) -> None:
    """In ascending order; the codes that every command has are among them."""
    text = " ".join(HELP[name].rpartition("\n\n")[2].split())
    assert text.startswith("Exit codes: 0 ")
    codes = re.findall(r" ([0-4]) (?=[a-z-])", text)
    assert codes == sorted(set(codes))
    assert set(EXIT_CODES) <= set(codes)


@ALL
def test_a_help_fits_a_terminal(name: str) -> None:
    """Only forms of edits are longer."""
    assert [line for line in HELP[name].splitlines() if len(line) > 80 and not line.startswith("  --")] == []


@pytest.mark.parametrize(("shell", "word"), [("bash", "complete -o nosort"), ("zsh", "compdef"), ("fish", "complete ")])
def test_completion_works_as_the_page_says(shell: str, word: str) -> None:
    """The line of the page prints a script, and the script's question for a command or an option has an answer."""
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert f"_SURGEON_COMPLETE={shell}_source surgeon" in page
    assert word in completion(_SURGEON_COMPLETE=f"{shell}_source")
    words = {"COMP_WORDS": "surgeon rew", "COMP_CWORD": "1" if shell != "fish" else "rew"}
    assert "rewrite" in completion(_SURGEON_COMPLETE=f"{shell}_complete", **words)


def completion(**variables: str) -> str:
    """The answer of the program to a shell that asks for completions."""
    command = [sys.executable, "-c", "from surgeon.cli.app import main; main(prog_name='surgeon')"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=surroundings(**variables))
    return done.stdout


def test_the_exit_codes_of_a_help_are_not_in_its_text() -> None:
    assert all(text.count("Exit codes:") == 1 for text in HELP.values())
    assert all(isinstance(found, HelpPage) for _, found in all_commands())


def test_a_text_names_every_choice() -> None:
    """Next to the option, or in its text."""
    for name, item in parameters():
        if isinstance(item, click.Option) and isinstance(item.type, click.Choice):
            shown = f"{item.metavar} {item.help}".replace("|", " ")
            wanted = [choice for choice in item.type.choices if choice not in re.findall(r"[\w-]+", shown)]
            assert not wanted or name in ("view", "rules"), f"{name} {item.opts}: {wanted}"


def test_the_targets_to_check_for_are_those_that_can_be_checked() -> None:
    """The help lists them without importing any."""
    target = next(item for name, item in parameters() if name == "check" and "--target" in item.opts)
    assert list(target.type.choices) == checkable_targets()


@pytest.mark.parametrize("name", [name for name, _ in commands() if name != "edit"])
def test_help_imports_no_library(name: str) -> None:
    """Options come from the source; those of edits come from packs."""
    assert not imported(name, "--help") & LIBRARIES


def test_the_help_of_all_commands_imports_none() -> None:
    """Their lines are a table."""
    loaded = imported("--help")
    assert not loaded & LIBRARIES
    assert not [name for name in loaded if name.startswith("surgeon.cli.commands.")]


if __name__ == "__main__":
    with TABLE.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([COLUMNS, *sorted(row(*item) for item in parameters())])
