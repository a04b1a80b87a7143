"""Report files of commands: checked before the work begins, and written atomically."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import click

from surgeon.cli.command_group import PRINTED, SHOWN, typed, wants_json
from surgeon.cli.progress import progress
from surgeon.display.envelope import envelope
from surgeon.display.registry import document_of
from surgeon.display.renderers import renderer_for, suffixes
from surgeon.display.terminal.console import print_json
from surgeon.display.terminal.sanitise import sanitise
from surgeon.errors import CheckFailed, ExpectationUnmet, ModelFileError, SurgeonError, UsageError
from surgeon.file.io.atomic_file import is_stream, write_text
from surgeon.result_base import FIRST, SUFFIXES, json_text

_JSON = re.compile(rb'\s*\{\s*("schema"\s*:\s*"surgeon\.report/|"(source|to|models?|original|rules)"\s*:)')
"""The beginning of a JSON report, of this version or of an older one, whose first key was of the result."""
SEARCHED = 1 << 26  # model files up to this size are searched for a name before they are parsed


def require_report_path(path: str | None, *models: str) -> None:
    """Raise an error, before the work begins, for a report that cannot be written or would overwrite another file.

    path: None without a report.  models: the models that are read; the last one is the output.
    """
    if path is None or is_stream(path):
        return  # opening and closing it would end the reader's input
    real = os.path.realpath(path)
    if any(real == os.path.realpath(model) or _same_file(real, model) for model in models):
        raise UsageError(f"--report would overwrite the model {path}. Choose another file.")
    if not os.path.isdir(os.path.dirname(real)):
        raise ModelFileError(f"The folder of the report {path} does not exist. Create it first.")
    if os.path.isdir(real):
        raise ModelFileError(f"--report needs a file, but {path} is a folder.")
    is_there = os.path.exists(real)
    try:
        if is_there and not _is_report(real):
            raise UsageError(
                f"--report would overwrite {path}, which is not a report. Choose another file, or delete it first."
            )
        if any(_is_data_file(real, source, models[-1]) for source in models[:-1] or models):
            raise UsageError(f"--report would overwrite {path}, a data file of the model. Choose another file.")
        known = suffixes()
        if os.path.splitext(path)[1].lower() not in ("", ".json", *SUFFIXES, *known):
            others = f", or {' or '.join(known)}" if known else ""
            raise UsageError(f"--report {path}: a report is HTML (.html) or JSON (.json){others}.")
        os.close(os.open(real, os.O_WRONLY | os.O_CREAT, 0o666))
        if not is_there:
            os.unlink(real)
    except OSError as error:
        raise ModelFileError(f"Cannot write the report {path} ({error.strerror}). Choose another file.") from None


def _same_file(one: str, other: str) -> bool:
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


def _is_report(path: str) -> bool:
    """Whether a file is empty or begins like a report."""
    with open(path, "rb") as file:
        head = file.read(64)
    renderer = renderer_for(path)
    is_own = renderer is not None and head.startswith(renderer.first.encode()[:64])
    return not head or _JSON.match(head) is not None or is_own or head.startswith(FIRST.encode())


def _is_data_file(path: str, source: str, output: str) -> bool:
    """Whether the model has, or will have, its data in this file."""
    if not os.path.isfile(source):
        return False  # reading the model reports the error
    if os.path.getsize(source) <= SEARCHED:
        with open(source, "rb") as file:
            if os.fsencode(os.path.basename(path)) not in file.read():
                return False
    from surgeon.file.external_data.locations import extent_of
    from surgeon.file.model import Model

    with Model.open(source) as model:
        locations = {extent_of(tensor).location for tensor in model.external_tensors}
    folders = (os.path.dirname(source), os.path.dirname(output))
    return any(path == os.path.realpath(os.path.join(folder, name)) for folder in folders for name in locations)


def run_and_report(
    run: Callable[..., tuple[Any, Any]],
    files: Sequence[str],
    *,
    report_path: str | None = None,
    quiet: bool,
    diff: bool = False,
    verbose: bool = False,
    **settings: Any,
) -> None:
    """Run a function, show its report and write it, also after a failed check.

    Raises the errors of `run`.  run: takes a progress callback and the settings.  files: the models that are read; the
    last one is the output.  quiet: show only what could not be proved.  diff: show changed lines too.  verbose: as in
    `show`.
    """
    require_report_path(report_path, *files)

    def publish(report: Any, error: CheckFailed | ExpectationUnmet | None = None) -> None:
        def show_all() -> None:
            if not quiet:
                from surgeon.display.terminal.terminal_renderer import show, show_diff

                show_diff(list(_diff_lines(report)) if diff else (), sys.stdout)
                show(report, sys.stdout, verbose=verbose)

        emit([report], report_path=report_path, error=error, show=show_all)

    try:
        with progress(quiet) as note:
            _, report = run(note, **settings)
    except (CheckFailed, ExpectationUnmet) as error:
        if error.report is not None:
            publish(error.report, error)
            context = click.get_current_context()
            shown: Any = error.report
            has_reason = shown.rolled_back or shown.doubts  # else only the error says why
            if isinstance(error, CheckFailed) and has_reason and not quiet and not wants_json(context):
                context.meta[SHOWN] = error
        raise
    publish(report)
    for remark in _remarks(report) if quiet else ():
        click.echo(sanitise(remark), err=True)


def _diff_lines(report: Any) -> Iterable[str]:
    """The nodes of each site before and after, or the lines of a model's listing that edits changed."""
    from surgeon.display.content.edit import listing_diff_lines
    from surgeon.display.content.site import diff_lines
    from surgeon.pipeline.reports.edit_report import EditReport

    return listing_diff_lines(report) if isinstance(report, EditReport) else diff_lines(report.sites)


def _remarks(report: Any) -> Iterator[str]:
    """The lines that a quiet run prints: failures, unproved results, and requests that were not met."""
    from surgeon.display.content.near_misses import warning_lines
    from surgeon.pipeline.rewriting.rollback import rollback_message

    if report.rolled_back:
        yield f"FAILED: {rollback_message(report)}"
    yield from (f"UNPROVED: {reason}" for reason in dict.fromkeys(report.doubts))
    yield from (f"warning: {line}" for line in warning_lines(report))


def emit(
    results: Sequence[Any],
    code: int = 0,
    *,
    report_path: str | None = None,
    error: SurgeonError | None = None,
    show: Callable[[], None] | None = None,
    verbose: bool = False,
) -> None:
    """Write the report of a command if requested, print its results as JSON or as text, and leave with its exit code.

    error: the error that the caller raises next.  show: prints other text than the results' documents.  verbose: as in
    `show` of the terminal.
    """
    ctx = click.get_current_context()
    make = partial(envelope, results, typed(), code=error.exit_code if error else code, error=error)
    if report_path is not None:
        _write_report(results, report_path, make)
    if wants_json(ctx):
        print_json(make())
        ctx.meta[PRINTED] = True
    elif show is not None:
        show()
    else:
        from surgeon.display.terminal import terminal_renderer

        for place, result in enumerate(results):
            click.echo("\n" * bool(place), nl=False)
            terminal_renderer.show(result, sys.stdout, verbose=verbose)
    if code and error is None:
        ctx.exit(code)


def _write_report(results: Sequence[Any], path: str, make: Callable[[], dict[str, Any]]) -> None:
    """Write results to a file atomically.  make: makes their envelope."""
    if path.lower().endswith(SUFFIXES) and not is_stream(path):
        from surgeon.display.html.render import page_of

        page_of(results, make()).save(path)
        return

    renderer = None if is_stream(path) else renderer_for(path)
    text = f"{json_text(make())}\n" if renderer is None else renderer.render(list(map(document_of, results)))
    try:
        write_text(path, text, "backslashreplace")
    except OSError as failure:
        raise ModelFileError(f"Cannot write the report {path}: {failure.strerror}") from None
