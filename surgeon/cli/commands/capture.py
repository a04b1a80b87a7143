"""The command `surgeon capture`: writes a rule from a part of a model."""

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
    """Write a rule file whose pattern is what lies between two cuts of MODEL, and a replacement to fill in.

    Numbers are fixed, weights and sizes are free, and so is what differs in other sites of the same structure.
    Example: surgeon capture in.onnx --from /layer.1/in --to /layer.1/out --name block

    Args:
        output: the file to write, NAME.py by default; nothing is overwritten.
    """
    from surgeon.authoring.capture import capture as run
    from surgeon.pipeline.editing.edit import parse_names

    if not froms and not tos:
        raise UsageError("Say where to cut, with --from, --to, or both.")
    cuts = [parse_names(text, "NAME,...") if text else () for text in (froms, tos)]
    found = run(source, cuts[0], cuts[1], name)
    path = Path(output or f"{name}.py")
    found.save(path)
    rules = f"./{path}" if path == Path(path.name) else path  # a bare name would be an installed rule
    lines = [f"{path}: it matches {format_count(found.sites, 'site')}; {found.compared} others were compared"]
    looser = (relaxed for relaxed in found.looser if relaxed.sites > found.sites)
    lines += [f"with {relaxed.what} free it would match {relaxed.sites:,}" for relaxed in looser]
    lines.append(f"Fill in what is to be written, then: {command('rewrite', source, 'OUT', '--rules', rules)}")
    emit([replace(found, output=str(path))], show=lambda: click.echo("\n".join(lines)))
