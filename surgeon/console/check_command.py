"""`surgeon check`: what keeps a model from running on a target, as people and as programs read it."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import click

from surgeon.checking.check import check as run
from surgeon.checking.check import checked
from surgeon.console.console import console_for, print_json
from surgeon.console.guard import CHECK_FAILED, Range, Sizes, reading, run_time
from surgeon.console.target_name import TargetName
from surgeon.diagnosis.finding import Diagnostic, RuntimeWord
from surgeon.listing import first_of
from surgeon.target import target_of

SHOWN_OPS, SHOWN_NODES = 4, 5  # of one cause


@click.command(short_help="Say what keeps a model from running on a target.")
@click.argument("source", metavar="MODEL")
@click.option(
    "--target", type=TargetName(checked), default="ort", show_default=True, help="Where the model is to run."
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
@click.option("--no-load", is_flag=True, help="Do not have the runtime itself read the model.")
@click.option(
    "--trt", metavar="NAME", help="Which TensorRT is asked: tensorrt-rtx or tensorrt.  [default: tensorrt-rtx]"
)
@click.option("--build", is_flag=True, help="For TensorRT: build an engine too, which needs no GPU.")
@click.option("--sm", default="86", show_default=True, help="Compute capability of the GPU that --build is for.")
@click.option(
    "--dim",
    "dims",
    type=Range(),
    multiple=True,
    help="Size of a named dimension in --build, or the least, best and largest; repeatable.",
)
@run_time
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@reading
def check(
    source: str, target: str, no_load: bool, as_json: bool, dims: Sequence[tuple[str, int | Sizes]], **settings: Any
) -> None:
    """Say what keeps MODEL from running on a target: which nodes it cannot run, where they came from, what helps.

    Faults of the graph itself are told too, all in one go.  Nothing is written.  The exit code is 1 where something
    cannot run.  Example: surgeon check model.onnx --target tensorrt
    """
    found = run(source, target, load=not no_load, dims=dict(dims), **settings)
    if as_json:
        content: dict[str, Any] = {"model": source, "target": target, "findings": [item.to_dict() for item in found]}
        if found.runtime is not None:
            content["runtime"] = found.runtime.to_dict()
        print_json(content)
    else:
        print_findings(found, target_of(target).title, sys.stdout, found.runtime)
    if any(item.stops for item in found):
        click.get_current_context().exit(CHECK_FAILED)


def print_findings(
    found: Sequence[Diagnostic], target: str, stream: TextIO, runtime: RuntimeWord | None = None
) -> None:
    """Print what stands against a target, what its own runtime said, then one line that sums up."""
    from rich.text import Text

    console = console_for(stream)
    groups = by_cause(found)
    for items in groups:
        title, *lines = cause_lines(items)
        console.print(Text(title, style="bold red" if items[0].stops else "bold yellow"), soft_wrap=True)
        for line in lines:
            console.print(Text(line, style="green" if line.startswith("  help: ") else ""), soft_wrap=True)
    for line in () if runtime is None else runtime_lines(runtime, target):
        console.print(Text(line), soft_wrap=True)
    stopping = sum(items[0].stops for items in groups)
    if stopping:
        console.print(Text(summary(stopping, target), style="bold red"), soft_wrap=True)
    else:
        console.print(Text(f"{target} has all that this model needs, as far as can be told.", style="bold green"))


def runtime_lines(runtime: RuntimeWord, target: str) -> Iterator[str]:
    """What a target's own runtime said of a model."""
    if not runtime.title:
        yield f"{target} is told {runtime.silence}."
        return
    part = "" if runtime.is_whole else "; it could not look behind all that it refuses"
    yield f"As {runtime.title} reads it: {runtime.layers:,} layers{part}."
    if runtime.engine:
        sizes = ", ".join(f"{name}={':'.join(map(str, dict.fromkeys(ends)))}" for name, ends in runtime.sizes.items())
        told = f" with {sizes}" if sizes else ""
        yield (
            f"It builds an engine for {runtime.device}{told}: {runtime.engine / 1e6:,.1f} MB, "
            f"{runtime.seconds:.1f} s of processor time."
        )


def summary(count: int, target: str) -> str:
    """How many things stop a model."""
    return f"{target} cannot run this model: {count:,} thing{'s' * (count != 1)} to mend."


def by_cause(found: Sequence[Diagnostic]) -> list[list[Diagnostic]]:
    """Findings of one cause together: of several ops, in the same words, unless a rule helps one of them alone."""
    groups: dict[object, list[Diagnostic]] = {}
    for item in found:
        has_rule = any(text.startswith("rule ") for text in item.helps)
        key = id(item) if has_rule or not item.op or item.kind == "opset" else (item.kind, item.reason, item.stops)
        groups.setdefault(key, []).append(item)
    return list(groups.values())


def cause_lines(items: Sequence[Diagnostic]) -> Iterator[str]:
    """One cause, line by line.  items: its findings, one of each op."""
    first = items[0]
    ops = [f"{item.op or ''}{f' x{item.count:,}' if item.count > 1 else ''}".strip() for item in items]
    named = first_of(ops, SHOWN_OPS)
    yield f"{named}: {first.reason}" if first.op else f"{first.reason}{f' ({ops[0]})' if ops[0] else ''}"
    if first.link and first.chain and len(items) == 1:
        yield f"  link: {first.chain}"
    nodes = [name for item in items for name in item.nodes]
    if nodes:
        yield f"  at: {first_of(nodes, SHOWN_NODES, sum(item.count for item in items))}"
    if first.came_from:
        yield f"  from: {first.came_from}"
    common = [text for text in first.helps if all(text in item.helps for item in items)]
    yield from (f"  help: {text}" for text in common or first.helps)
