"""Shows a model as a widget in a notebook."""

from typing import TYPE_CHECKING

from surgeon.errors import UsageError
from surgeon.file.model_like import ModelLike
from surgeon.printed_commands import command
from surgeon.target_registry import names
from surgeon.versions import install_command

if TYPE_CHECKING:
    from surgeon.display.viewer.widget import View

HEIGHT = 560  # pixels


def view(model: ModelLike, *, target: str = "ort", height: int = HEIGHT) -> "View":
    """Show a model in a notebook: folded by scopes and repeated blocks, to open, search and select from.

    `view.selection` has the names of the selected nodes, and the two cuts around them.
    `view.show(report)` colours the nodes that a report, matches, misses or names speak of, and `view.select(names)`
    selects without a click.  From a shell, `surgeon view` shows the same in a browser.

    Args:
        model: a path, or a model in memory: a ModelProto, gs.Graph, onnx_ir.Model or ONNXProgram.
        target: runtime that the rules are for, when the viewer lists the rules for a node.
        height: of the view, in pixels.

    Returns:
        A widget, which the last line of a cell shows in JupyterLab, Notebook 7, VS Code, Colab and marimo.

    Raises:
        UsageError: an unknown target, or anywidget is missing (`pip install
            "onnx-surgeon[notebook]"`).
        ModelFileError: the file cannot be read.
        GraphError: the model contradicts itself.

    Examples:
        >>> import surgeon
        >>> view = surgeon.view("notebooks/models/tiny_distilbert.onnx")
        >>> view.select(["node_gelu"])
        >>> view.selection.froms, view.selection.tos
        (('linear_4', 'val_155'), ('gelu',))
    """
    if target not in names():
        raise UsageError(f"No target named {target!r}; choose one of {', '.join(names())}.")
    if height < 100:
        raise UsageError(f"height={height}: a view needs 100 pixels at least.")
    try:
        from surgeon.display.viewer.widget import View
    except ImportError as error:
        if error.name not in ("anywidget", "ipywidgets", "traitlets"):
            raise
        how = f"{install_command('notebook')}, or use: {command('view', 'MODEL')}"
        raise UsageError(f"A view needs anywidget: {how}.") from None
    return View(model, target, height)
