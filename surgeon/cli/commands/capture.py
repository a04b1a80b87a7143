"""The command `surgeon capture`: creates a rule file from a part of a model."""

from dataclasses import replace
from pathlib import Path

import click

from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.report_file import emit
from surgeon.declarations import REQUIRED
from surgeon.errors import UsageError
from surgeon.printed_commands import command
from surgeon.text import format_count


@derived_command(
    "capture", {"source": "MODEL"}, name=Spelling(default=REQUIRED), output=Spelling("--output -o", "FILE")
)
def capture(source: str, froms: str | None, tos: str | None, name: str, output: str | None = None) -> None:
    """Create a rule file from the nodes between two cuts of MODEL: their pattern, and a replacement to fill in.

    Constants in the pattern have fixed values.  Weights, sizes, and values that differ at other sites of the same
    structure are captured.
    Example: surgeon capture in.onnx --from /block/in --to /block/out --name block

    Args:
        output: file to write; an existing file is never overwritten.  Default: NAME.py.
    """
    from surgeon.authoring.capture import capture as run
    from surgeon.pipeline.editing.edit import parse_names

    if not froms and not tos:
        raise UsageError("No cuts given. Give the first tensors with --from, the last ones with --to, or both.")
    cuts = [parse_names(text, "NAME,...") if text else () for text in (froms, tos)]
    found = run(source, cuts[0], cuts[1], name)
    path = Path(output or f"{name}.py")
    found.save(path)
    rules = f"./{path}" if path == Path(path.name) else path  # a bare name would be an installed rule
    lines = [f"{path}: matches {format_count(found.sites, 'site')} (compared with {found.compared} others)"]
    looser = (relaxed for relaxed in found.looser if relaxed.sites > found.sites)
    lines += [f"if {relaxed.what} is captured, it matches {relaxed.sites:,}" for relaxed in looser]
    lines.append(f"Fill in the replacement, then run: {command('rewrite', source, 'OUT', '--rules', rules)}")
    emit([replace(found, output=str(path))], show=lambda: click.echo("\n".join(lines)))
