"""What the documentation says of the command line is what `--help` says, at the time it is built."""

from typing import Any

import click

from surgeon.cli.app import main

COMMANDS = "<!-- commands -->"
WIDTH = 110  # columns


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the help of every command where the page asks for it."""
    return markdown.replace(COMMANDS, "\n".join(_sections())) if COMMANDS in markdown else markdown


def _sections() -> list[str]:
    context = click.Context(main, info_name="surgeon", **main.context_settings)
    return [_section(context)] + [_section(_inner(context, name)) for name in main.list_commands(context)]


def _inner(context: click.Context, name: str) -> click.Context:
    command = main.get_command(context, name)
    if command is None:
        raise LookupError(f"surgeon lists a command {name!r} that it has not.")
    return click.Context(command, info_name=name, parent=context, **command.context_settings)


def _section(context: click.Context) -> str:
    context.terminal_width = context.max_content_width = WIDTH
    return f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n"
