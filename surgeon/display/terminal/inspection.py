"""The terminal output of a model summary."""

from typing import TextIO

from surgeon.display.content.inspection import header_lines, weights_text
from surgeon.display.terminal.console import make_console
from surgeon.targets.inspection.model_summary import Inspection, size_text
from surgeon.text import join_first


def print_inspection(found: Inspection, stream: TextIO) -> None:
    """Print a model summary."""
    from rich.text import Text

    console = make_console(stream)

    def line(name: str, text: str, style: str = "") -> None:
        console.print(Text.assemble((f"{name:<10}", "bold"), (text, style)), soft_wrap=True)

    line("model", f"{found.path} ({size_text(found.file_size)})")
    line("IR", f"version {found.ir_version}{', made by ' + found.producer if found.producer else ''}")
    line("opsets", ", ".join(f"{domain} {version}" for domain, version in found.opsets.items()) or "none")
    for title, values in (("inputs", found.inputs), ("outputs", found.outputs)):
        for place, (name, text) in enumerate(values.items()):
            line("" if place else title, f"{name}: {text}")
    for title, text in header_lines(found):
        line(title, text)
    line("weights", weights_text(found))
    for item in found.files:
        missing = item.size is None
        state = "MISSING" if item.size is None else size_text(item.size)
        line("", f"{item.location}: {size_text(item.used)} used of {state}", "bold red" if missing else "")
    line("nodes", f"{found.nodes:,}")
    for domain, ops in found.ops.items():
        line("", domain, "bold")
        for op, count in ops.items():
            console.print(f"{count:>9,} {op}", soft_wrap=True)
    for function in found.functions:
        line("function", f"{function.name}: {function.nodes:,} nodes, called {function.calls:,} times")
    if found.unknown:
        console.print(Text("custom or placeholder ops, and ops that onnx and ONNX Runtime do not have:", style="bold"))
    for group in found.unknown:
        places = join_first(group.places, len(group.places), group.count)
        console.print(Text(f"  {group.op} x{group.count:,} ({group.why}) at {places}", style="yellow"), soft_wrap=True)
