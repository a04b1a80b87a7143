"""The group of all commands: errors as one sentence with an exit code, signals, and the end of the process."""

import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from surgeon.cli.command_suggestions import unknown_command, with_hint
from surgeon.cli.help_page import HelpPage
from surgeon.cli.watchdog import watch
from surgeon.display.envelope import envelope
from surgeon.display.terminal.console import make_printable, print_json
from surgeon.display.terminal.sanitise import sanitise
from surgeon.errors import NO_TEMPORARY, CheckFailed, SurgeonError, lacks_temporary
from surgeon.printed_commands import with_traceback
from surgeon.runtime.processes.fork import allow_fork

CHECK_FAILED, BAD_INPUT, DEFECT = CheckFailed.exit_code, SurgeonError.exit_code, 4
INTERRUPTED, BROKEN_PIPE = 130, 141  # as a shell reports SIGINT and SIGPIPE
TYPED = "surgeon.typed"  # in a context's meta: the command line
JSON = "surgeon.json"  # in a context's meta: whether the command prints JSON
PRINTED = "surgeon.printed"  # in a context's meta: whether it has
SHOWN = "surgeon.shown"  # in a context's meta: the error whose report is on the screen
TRACEBACK = "surgeon.traceback"  # in a context's meta: whether to print the traceback of an internal error


class Terminated(BaseException):
    """A signal asked the process to end; the stack unwinds and cleans up.  number: of the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def raise_on_termination() -> None:
    """Make SIGTERM and SIGHUP raise Terminated, as SIGINT raises KeyboardInterrupt, unless they are ignored (nohup)."""
    if threading.current_thread() is not threading.main_thread():
        return
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

    def end(number: int, _: object) -> NoReturn:
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)  # a second signal must not interrupt the cleanup
        raise Terminated(number)

    for number in numbers:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, end)


class CommandGroup(HelpPage, click.Group):
    """A group whose commands turn errors into one sentence and an exit code."""

    summaries: Mapping[str, Mapping[str, str]] = {}
    """A line for each command, by group and name; each command is imported on first use."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Record the command line for report pages."""
        ctx.meta[TYPED] = ("surgeon", *args)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted({*super().list_commands(ctx), *(name for known in self.summaries.values() for name in known)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, None for an unknown name."""
        if cmd_name not in self.commands and any(cmd_name in known for known in self.summaries.values()):
            self.add_command(getattr(importlib.import_module(f"surgeon.cli.commands.{cmd_name}"), cmd_name))
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by group; none is imported."""
        for title, known in self.summaries.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(8), text) for name, text in known.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the command line; an unknown name is an error with suggestions."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(unknown_command(args[0], self.list_commands(ctx)))
        return super().resolve_command(ctx, args)

    def main(self, args: Any = None, *rest: Any, **keywords: Any) -> Any:
        """Run the program; as a process (without arguments given) it exits here."""
        if args is not None:
            return super().main(args, *rest, **keywords)
        make_printable(sys.stdout, sys.stderr)
        allow_fork()
        code: Any = 0
        try:
            raise_on_termination()
            watch()
            super().main(args, *rest, **keywords)
        except SystemExit as end:
            code = end.code
        except Terminated as end:
            click.echo(f"Ended by {signal.Signals(end.number).name}.", err=True)
            code = 128 + end.number  # as a shell reports it
        if "surgeon.runtime.processes.worker" in sys.modules:
            sys.modules["surgeon.runtime.processes.worker"].stop()  # nothing else waits for the workers
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else bool(code))  # the kernel frees a million objects faster than Python

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except SurgeonError as error:
            _leave(ctx, error)
        except MemoryError:
            _leave(ctx, SurgeonError("Out of memory. Close other programs or use a larger machine."))
        except BrokenPipeError:
            # The reader closed the pipe: exit as after SIGPIPE, without an error from Python's last flush.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(BROKEN_PIPE)
        except OSError as error:
            if lacks_temporary(error):
                _leave(ctx, SurgeonError(NO_TEMPORARY))
            place = f"{error.filename}: " if error.filename else ""
            refusal = SurgeonError(f"{place}{error.strerror or error}")
            refusal.where = str(error.filename or "")
            _leave(ctx, refusal)
        except KeyboardInterrupt:
            _print_as_json(ctx, SurgeonError("Interrupted."), INTERRUPTED)
            click.echo("Interrupted.", err=True)
            ctx.exit(INTERRUPTED)
        except click.ClickException as error:
            said = with_hint(error, ctx.meta.get(TYPED, ()))
            _print_as_json(ctx, SurgeonError(said.format_message()), said.exit_code)
            raise said from None
        except (click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:  # the last resort: one sentence instead of a traceback
            if ctx.meta.get(TRACEBACK):
                raise
            _leave(ctx, SurgeonError(_defect(error)), DEFECT)
        return result


def typed() -> str:
    """The command line of the running command."""
    import shlex  # imported here: few runs need it

    return shlex.join(click.get_current_context().meta.get(TYPED, ()))


def _defect(error: Exception) -> str:
    """The message for an unexpected exception, with the last function of surgeon in its traceback."""
    walked = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    own = [frame for frame in walked if frame.f_globals.get("__name__", "").startswith(__package__.partition(".")[0])]
    code = (own or walked)[-1].f_code
    what = f"{type(error).__name__}: {error}".partition("\n")[0]
    return (
        f"Internal error in surgeon: {what} (in {code.co_name}). Nothing more was written. Please report it with the "
        f"output of: {with_traceback(click.get_current_context().find_root().meta.get(TYPED, ()))}"
    )


def wants_json(ctx: click.Context) -> bool:
    """Whether the command prints JSON, by its words if they are not parsed yet."""
    return bool(ctx.meta.get(JSON, "--json" in ctx.meta.get(TYPED, ())))


def _print_as_json(ctx: click.Context, error: SurgeonError, code: int) -> None:
    """Print an error as JSON on standard output with --json, unless it was printed with a result."""
    if wants_json(ctx) and not ctx.meta.get(PRINTED):
        print_json(envelope((), typed(), code, error))


def _leave(ctx: click.Context, error: SurgeonError, code: int | None = None) -> NoReturn:
    code = error.exit_code if code is None else code
    _print_as_json(ctx, error, code)
    if ctx.meta.get(SHOWN) is not error:
        click.echo(f"Error: {sanitise(str(error))}", err=True)
    ctx.exit(code)
