"""`surgeon check`: what keeps a model from running on a target, as people and as programs read it."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import click

from surgeon.console.console import console_for
from surgeon.console.guard import CHECK_FAILED, reading, run_time
from surgeon.diagnosis.check import CHECKED
from surgeon.diagnosis.check import check as run
from surgeon.diagnosis.finding import Finding
from surgeon.listing import first_of

TITLES = {"ort": "ONNX Runtime", "onnx": "ONNX", "tensorrt": "TensorRT"}


@click.command(short_help="Say what keeps a model from running on a target.")
@click.argument("source", metavar="MODEL")
@click.option(
    "--target", type=click.Choice(list(CHECKED)), default="ort", show_default=True, help="Where the model is to run."
)
@click.option(
    "--ep", metavar="NAME", help="ONNX Runtime's execution provider: cpu, cuda, dml, tensorrt.  [default: cpu]"
)
@click.option(
    "--custom-ops",
    multiple=True,
    metavar="LIB",
    help="Library of custom ops, or a Python file that implements ops, that the target will have; repeatable.",
)
@click.option("--no-load", is_flag=True, help="Do not have ONNX Runtime load the model at the end.")
@run_time
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@reading
def check(source: str, target: str, no_load: bool, as_json: bool, **settings: Any) -> None:
    """Say what keeps MODEL from running on a target: which nodes it cannot run, where they came from, what helps.

    Faults of the graph itself are told too, all in one go.  Nothing is written.  The exit code is 1 where something
    cannot run.  Example: surgeon check model.onnx --target tensorrt
    """
    found = run(source, target, load=not no_load, **settings)
    if as_json:
        import json

        content = {"model": source, "target": target, "findings": [item.to_dict() for item in found]}
        click.echo(json.dumps(content, indent=1, ensure_ascii=False))
    else:
        print_findings(found, TITLES[target], sys.stdout)
    if any(item.stops for item in found):
        click.get_current_context().exit(CHECK_FAILED)


def print_findings(found: Sequence[Finding], target: str, stream: TextIO) -> None:
    """Print what stands against a target, then one line that sums up."""
    from rich.text import Text

    console = console_for(stream)
    for item in found:
        title, *lines = finding_lines(item)
        console.print(Text(title, style="bold red" if item.stops else "bold yellow"), soft_wrap=True)
        for line in lines:
            console.print(Text(line, style="green" if line.startswith("  help: ") else ""), soft_wrap=True)
    stopping = sum(item.stops for item in found)
    if stopping:
        console.print(Text(summary(stopping, target), style="bold red"), soft_wrap=True)
    else:
        console.print(Text(f"{target} has all that this model needs, as far as can be told.", style="bold green"))


def summary(count: int, target: str) -> str:
    """How many things stop a model."""
    return f"{target} cannot run this model: {count:,} thing{'s' * (count != 1)} to mend."


def finding_lines(found: Finding) -> Iterator[str]:
    """One finding, line by line."""
    times = f" x{found.count:,}" if found.count > 1 else ""
    yield f"{found.op}{times}: {found.reason}" if found.op else found.reason
    if found.link:
        yield f"  link: {found.chain}"
    if found.nodes:
        yield f"  at: {first_of(found.nodes, len(found.nodes), found.count)}"
    if found.came_from:
        yield f"  from: {found.came_from}"
    yield from (f"  help: {text}" for text in found.helps)
