"""The command `surgeon draw`: draws a graph, or a part of one, as an SVG file."""

from typing import Any

from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.report_file import emit
from surgeon.display.registry import CommandResult
from surgeon.errors import UsageError


@derived_command(
    "draw", {"source": "MODEL", "output": "OUT.svg"}, without="models titles", beside=Spelling(metavar="MODEL")
)
def draw(source: str, output: str, beside: str | None = None, **settings: Any) -> None:
    """Draw MODEL from top to bottom: ops with their attributes and constants, tensors with their dtypes and shapes.
    Example: surgeon draw model.onnx gelu.svg --around /mlp/Gelu

    Args:
        beside: second model, drawn to the right of the first.
    """
    from surgeon.display.pictures.draw import TooManyNodes
    from surgeon.display.pictures.draw import draw as run
    from surgeon.display.pictures.svg import require_svg

    models = [source] if beside is None else [source, beside]
    require_svg(output)  # before slow or failing steps
    try:
        picture = run(*models, **settings)
    except TooManyNodes as error:
        raise UsageError(error.message_with('--around "node name"', "--radius", f"--nodes {error.count}")) from None
    picture.save(output)
    data = {"models": models, "output": output, "about": picture.about}
    emit([CommandResult("draw", data, [f"drawn    {picture.about}, in {output}"])])
