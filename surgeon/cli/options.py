"""Shared by all commands: errors as one sentence with an exit code, and common options."""

import functools
import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import click

from surgeon.cli.command_suggestions import extra_argument_hint, unknown_command
from surgeon.cli.watchdog import watch
from surgeon.display.terminal.console import make_printable
from surgeon.display.terminal.sanitise import sanitise
from surgeon.errors import NO_TEMPORARY, CheckFailed, ExpectationUnmet, SurgeonError, lacks_temporary
from surgeon.printed_commands import with_traceback
from surgeon.runtime.processes.fork import allow_fork
from surgeon.runtime.run_limits import DEFAULT_TIMEOUT, RUNTIMES, TENSORRT

Sizes = tuple[int, int, int]
"""The minimum, optimum and maximum of a dimension."""
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

CHECK_FAILED, BAD_INPUT, UNEXPECTED, DEFECT = 1, 2, 3, 4
INTERRUPTED, BROKEN_PIPE = 130, 141  # as a shell reports SIGINT and SIGPIPE
TYPED = "surgeon.typed"  # in a context's meta: the command line
TRACEBACK = "surgeon.traceback"  # in a context's meta: whether to show where a defect is


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


class CommandGroup(click.Group):
    """A group whose commands turn errors into one sentence and an exit code.

    lazy_commands: the modules of commands that are imported on first use, by name.
    """

    def __init__(self, *rest: Any, **keywords: Any) -> None:
        super().__init__(*rest, **keywords)
        self.lazy_commands: dict[str, str] = {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Record the command line for report pages."""
        ctx.meta[TYPED] = ("surgeon", *args)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted({*super().list_commands(ctx), *self.lazy_commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, None for an unknown name."""
        if cmd_name in self.lazy_commands:
            self.add_command(getattr(importlib.import_module(self.lazy_commands.pop(cmd_name)), cmd_name))
        return super().get_command(ctx, cmd_name)

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
        except ExpectationUnmet as error:
            _leave(ctx, str(error), UNEXPECTED)
        except CheckFailed as error:
            _leave(ctx, str(error), CHECK_FAILED)
        except SurgeonError as error:
            _leave(ctx, str(error), BAD_INPUT)
        except MemoryError:
            _leave(ctx, "Memory ran out; close other programs or use a larger machine.", BAD_INPUT)
        except BrokenPipeError:
            # The reader closed the pipe: exit as after SIGPIPE, without an error from Python's last flush.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(BROKEN_PIPE)
        except OSError as error:
            if lacks_temporary(error):
                _leave(ctx, NO_TEMPORARY, BAD_INPUT)
            place = f"{error.filename}: " if error.filename else ""
            _leave(ctx, f"{place}{error.strerror or error}; mend that and run it again.", BAD_INPUT)
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(INTERRUPTED)
        except click.UsageError as error:
            hint = extra_argument_hint(error.message, error.ctx)
            if hint is None:
                raise
            raise click.UsageError(f"{error.message.rstrip('.')}. {hint}", error.ctx) from None
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:  # the last resort: one sentence instead of a traceback
            if ctx.meta.get(TRACEBACK):
                raise
            _leave(ctx, _defect(error), DEFECT)
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
        f"This is a defect of surgeon: {what} (in {code.co_name}); nothing more was written.  Please report it with "
        f"what this prints: {with_traceback(click.get_current_context().find_root().meta.get(TYPED, ()))}"
    )


def _leave(ctx: click.Context, sentence: str, code: int) -> NoReturn:
    click.echo(f"Error: {sanitise(sentence)}", err=True)
    ctx.exit(code)


def explain_invalid_names(command: Callable[..., Any]) -> Callable[..., Any]:
    """Explain errors in a model with names that are not UTF-8, which protobuf returns as bytes.

    The model is `source`, and for two models also `second`.  Checking all names first would be slow, so they are
    checked
    after an error.
    """

    @functools.wraps(command)
    def run(source: str, **keywords: Any) -> Any:
        try:
            return command(source, **keywords)
        except (AttributeError, TypeError, ValueError, RuntimeError):  # RuntimeError from a child process
            from surgeon.file.model import Model

            for path in filter(None, (source, keywords.get("second"))):
                with Model.open(path) as model:
                    model.check_names()
            raise

    return run


class NameAndNumber(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.4 on
    """NAME=NUMBER."""

    name = "NAME=N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Return the name and the number."""
        if isinstance(value, tuple):
            return value
        name, _, number = str(value).rpartition("=")
        if not name or not number.strip().isdecimal():
            self.fail(f"{value!r} is not of the form NAME=NUMBER", param, ctx)
        return name.strip(), int(number)


class NameAndSizeRange(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.4 on
    """NAME=NUMBER, or NAME=LEAST:BEST:LARGEST."""

    name = "NAME=N[:N:N]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int | Sizes]:
        """Return the name, and one number or three."""
        if isinstance(value, tuple):
            return value
        name, _, sizes = str(value).rpartition("=")
        numbers = [text.strip() for text in sizes.split(":")]
        if not name or len(numbers) not in (1, 3) or not all(text.isdecimal() for text in numbers):
            self.fail(f"{value!r} is not of the form NAME=NUMBER or NAME=LEAST:BEST:LARGEST", param, ctx)
        found = list(map(int, numbers))
        return name.strip(), found[0] if len(found) == 1 else (found[0], found[1], found[2])


class Opset(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.4 on
    """auto, none, or the number of an opset."""

    name = "auto|N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return the number, or the word."""
        if isinstance(value, int):
            return value
        if value in ("auto", "none"):
            return str(value)
        if not str(value).isdecimal():
            self.fail(f"{value!r} is neither auto, none nor the number of an opset", param, ctx)
        return int(value)


def check_and_output_options(*checks: str, dim: str = "--dim", layers: bool = True) -> Decorator:
    """Add the options of every command that checks and writes a model; the check's options become one `options`.

    checks: the choices of `--check`, the default first.  dim: the name of the option for sizes in the check.  layers:
    whether inner tensors can be compared.
    """
    return lambda command: _with_options(command, checks, dim, layers)


def _with_options(command: Callable[..., Any], checks: Sequence[str], dim: str, layers: bool) -> Callable[..., Any]:
    meaning = {
        "sites": "sites: prove every rewritten site on its own",
        "model": "model: run both whole models under ONNX Runtime and compare",
        "auto": "auto: the same, where it does not follow from the nodes, which are the original's own",
    }
    check_help = "; ".join(meaning[name] for name in sorted(checks, reverse=True) if name in meaning)
    check_help += "; or both" * ("both" in checks)
    options: tuple[Decorator, ...] = (
        click.option("--check", type=click.Choice(checks), default=checks[0], show_default=True, help=f"{check_help}."),
        click.option("--require-proof", is_flag=True, help="Treat a result that cannot be proved as a failed one."),
        *check_options(dim, layers),
        *(_proof_options() if "sites" in checks else ()),
        click.option(
            "--external-data",
            type=click.Choice(["auto", "share", "copy", "inline"]),
            default="auto",
            show_default=True,
            help="Data files where OUT is in another folder: copy (auto), or put them into the model (inline); in the "
            "folder of IN they are shared. share: refuse other folders.",
        ),
        click.option("--force", is_flag=True, help="Overwrite what is no model, or a data file of other content."),
        click.option("--quiet", "-q", is_flag=True, help="Print errors only, and what could not be proved."),
    )

    @functools.wraps(command)
    def run(
        dims: Sequence[tuple[str, int]],
        seed: int,
        custom_ops: Sequence[str],
        rtol: float | None,
        atol: float | None,
        inputs: Sequence[str],
        **keywords: Any,
    ) -> Any:
        from surgeon.proof.check_options import CheckOptions

        if keywords["check"] != "none" and not keywords.get("dry_run"):
            # Imported here: other commands do not need numpy.
            from surgeon.runtime.processes.worker_pool import prefork_workers

            prefork_workers(keywords.get("jobs", 1))
        limits = {name: keywords.pop(name) for name in ("layers", "proof_time", "run_time", "jobs") if name in keywords}
        options = CheckOptions(dict(dims), seed, custom_ops, rtol=rtol, atol=atol, inputs=inputs, **limits)
        return command(options=options, **keywords)

    decorated: Callable[..., Any] = run
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def _proof_options() -> tuple[Decorator, ...]:
    """The limits of proofs."""
    return (
        click.option(
            "--proof-time",
            type=float,
            default=10.0,
            show_default=True,
            metavar="SECONDS",
            help="Processor time that the proof of one site may take; beyond, it is unproved.",
        ),
        click.option(
            "--jobs",
            "-j",
            type=int,
            metavar="N",
            help="Proofs to make at once.  [default: as many as there are cores, at most 4]",
        ),
    )


_LAYERS: Decorator = click.option(
    "--compare-layers", "layers", is_flag=True, help="Compare inner tensors of the whole models too."
)
run_time: Decorator = click.option(
    "--run-time",
    type=float,
    default=DEFAULT_TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="Processor time that one run of a whole model may take; beyond it nothing is told of it.",
)


def runtime_option(what: str) -> Decorator:
    """The option that chooses ONNX Runtime or TensorRT.  what: the models, for the help text."""
    return click.option(
        "--with",
        "runtime",
        type=click.Choice(RUNTIMES),
        default=RUNTIMES[0],
        show_default=True,
        help=f"What runs {what}; {TENSORRT} needs a GPU of NVIDIA's.",
    )


def check_options(dim: str = "--dim", layers: bool = True) -> tuple[Decorator, ...]:
    """The options of a check: inputs, ops, tolerances.  dim: the name of the option for sizes.

    layers: whether inner tensors can be compared.
    """
    return (
        click.option(
            dim, "dims", type=NameAndNumber(), multiple=True, help="Size of a named dimension in the check; repeatable."
        ),
        click.option("--seed", type=int, default=0, show_default=True, help="Seed of the check's random inputs."),
        click.option(
            "--inputs",
            multiple=True,
            metavar="PATH",
            help="Your own data for the check of the whole model: an .npz file, or a folder of them; repeatable.",
        ),
        *((_LAYERS,) if layers else ()),
        click.option(
            "--custom-ops",
            multiple=True,
            metavar="LIB",
            help="Library of custom ops for ONNX Runtime, or a Python file that implements ops in numpy; repeatable.",
        ),
        click.option("--rtol", type=float, help="Relative tolerance in place of the dtype's own."),
        click.option("--atol", type=float, help="Absolute tolerance in place of the dtype's own."),
        run_time,
    )
