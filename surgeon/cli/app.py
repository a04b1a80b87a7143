"""The command line and its exit codes.

0  success
1  a check failed, or was unproved with --require-proof; proved sites are written if the faulty ones are known
2  bad input or usage
3  --expect was not met; nothing was written
"""

import click

from surgeon.cli.options import TRACEBACK, CommandGroup


def _version(ctx: click.Context, _: click.Parameter, is_set: bool) -> None:
    if is_set:
        from surgeon.versions import own_version

        click.echo(f"surgeon {own_version()}")
        ctx.exit()


def _traceback(ctx: click.Context, _: click.Parameter, is_set: bool) -> None:
    ctx.meta[TRACEBACK] = is_set


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version and leave."
)
@click.option(
    "--traceback", is_flag=True, expose_value=False, callback=_traceback, help="Show where a defect of surgeon is."
)
def main() -> None:
    """Graph surgery for exported ONNX models: every change you asked for, nothing else, and each one proved.

    Exit codes: 0 fine, 1 a check failed, 2 bad input or usage, 3 --expect not met, 4 a defect of
    surgeon.
    """


_COMMANDS = (
    "append", "bench", "capture", "check", "compare", "convert", "diff", "draw", "edit", "explain", "extract", "insert",
    "inspect", "learn", "merge", "new", "prepend", "record", "rewrite", "rules", "run", "split", "upgrade", "view",
)
main.lazy_commands |= {name: f"surgeon.cli.commands.{name}" for name in _COMMANDS}
