"""Hooks of the documentation: the page of the command line has the text of `--help`, and pages need no network."""

from typing import Any

import click

from surgeon.cli.app import main

COMMANDS = "<!-- commands -->"
WIDTH = 110  # columns
SHIM = "https://unpkg.com/iframe-worker/shim"  # what the theme loads for the search of pages in a folder
OWN_SHIM = "assets/iframe-worker.js"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the help of every command where the page asks for it."""
    return markdown.replace(COMMANDS, "\n".join(_sections())) if COMMANDS in markdown else markdown


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Load the search's shim from the site itself."""
    return output.replace(SHIM, "../" * page.url.count("/") + OWN_SHIM)


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
