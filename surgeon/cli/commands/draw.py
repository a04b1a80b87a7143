"""The command `surgeon draw`: draws a graph, or a part of one, as an SVG file."""

import click

from surgeon.cli.options import explain_invalid_names
from surgeon.display.pictures.draw import NODES, RADIUS, TooManyNodes
from surgeon.display.pictures.draw import draw as run
from surgeon.display.pictures.svg import require_svg
from surgeon.errors import UsageError


@click.command(short_help="Draw a model, or a part of it, as an SVG file.")
@click.argument("source", metavar="MODEL")
@click.argument("output", metavar="OUT.svg")
@click.option("--beside", metavar="MODEL", help="Another model, drawn beside the first.")
@click.option("--around", metavar="NAME", help="Draw only what is near the node, or the tensor, of this name.")
@click.option("--radius", type=int, default=RADIUS, show_default=True, help="How many steps away, with --around.")
@click.option("--inside", metavar="NAME", help="Draw a local function (domain::name) or the body of a node.")
@click.option("--nodes", type=int, default=NODES, show_default=True, help="Refuse to draw more nodes than this.")
@explain_invalid_names
def draw(
    source: str, output: str, beside: str | None, around: str | None, radius: int, inside: str | None, nodes: int
) -> None:
    """Draw MODEL from top to bottom: ops with their attributes and constants, tensors with their dtypes and shapes.

    Example: surgeon draw model.onnx gelu.svg --around /mlp/Gelu
    """
    models = [source] if beside is None else [source, beside]
    require_svg(output)  # before slow or failing steps
    try:
        picture = run(*models, around=around, radius=radius, inside=inside, nodes=nodes)
    except TooManyNodes as error:
        raise UsageError(error.message_with('--around "node name"', "--radius", f"--nodes {error.count}")) from None
    picture.save(output)
    click.echo(f"drawn    {picture.about}, in {output}")
