"""The command `surgeon learn`: writes a pattern file from exports of an operation."""

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.report_file import emit
from surgeon.display.registry import CommandResult
from surgeon.errors import UsageError
from surgeon.versions import install_command

if TYPE_CHECKING:
    from surgeon.authoring.learning.learn import LearnedOperation


@derived_command(
    "surgeon.torch.pattern_learning.module_patterns:learn",
    {"sources": "NAME | MODEL MODEL..."},
    without="what inputs placeholders",
    shapes=Spelling("--shape", "2,3"),
    dtypes=Spelling("--dtype", "DTYPE"),
    arguments=Spelling("--arg", "NAME=VALUE"),
    vary=Spelling(metavar="NAME=VALUE"),
    title=Spelling(metavar="TEXT"),
    exporters=Spelling("--exporter"),
    opsets=Spelling("--opset"),
)
def learn(
    sources: Sequence[str],
    free_sizes: bool,
    title: str | None,
    shapes: Sequence[str] = (),
    dtypes: Sequence[str] = (),
    arguments: Sequence[str] = (),
    vary: Sequence[str] = (),
    exporters: Sequence[Literal["dynamo", "torchscript"]] = (),
    opsets: Sequence[int] = (),
) -> None:
    """Print the pattern that exporters write for a torch module, class, factory or function.

    surgeon exports it several times, with other sizes, weights and hyperparameters.  Values that differ become
    parameters of the pattern, and equal values become literals.  Instead of a name, give two or more exports of one
    operation.
    Example: surgeon learn torch.nn:GELU --shape 2,3 --arg approximate=tanh

    Args:
        shapes: shape of an input, once for each input.  Default: 2,3.
        dtypes: dtype of all inputs, or once for each input.  Default: float32.
        arguments: argument of the class or function.
        exporters: exporter to use.  Default: both.
        opsets: opset of ai.onnx.  Default: each opset at which the exporters change their output.
        vary: another value of an argument, which then becomes a parameter of the pattern.
        free_sizes: also export with dynamic sizes, because exporters then write other nodes.
    """
    if any(source.endswith(".onnx") for source in sources):
        if shapes or dtypes or arguments or vary or exporters or opsets or free_sizes:
            raise UsageError("Models are already exported. Leave out options for exports, such as --shape and --opset.")
        learned = _from_models(sources, title)
    elif len(sources) > 1:
        raise UsageError(f"Give one module, or two or more .onnx files, not {', '.join(sources)}.")
    else:
        learned = _from_torch(
            sources[0],
            [_parse_shape(text) for text in shapes or ("2,3",)],
            dtypes or ("float32",),
            arguments=dict(map(_parse_argument, arguments)),
            vary=dict(map(_parse_argument, vary)) or None,
            exporters=exporters or None,
            opsets=opsets or None,
            free_sizes=free_sizes,
            title=title,
        )
    from surgeon.authoring.learning.known_rules import remark

    remark(learned)
    text = learned.text()
    data = {"name": learned.name, "title": learned.title, "text": text, "not_learned_from": learned.failures}
    emit([CommandResult("learn", data)], show=lambda: click.echo(text, nl=False))


def _from_models(paths: Sequence[str], title: str | None) -> "LearnedOperation":
    from surgeon.authoring.learning import learn as lessons
    from surgeon.authoring.learning.terms import Example
    from surgeon.file.model import Model

    if len(paths) < 2:
        raise UsageError("A single model does not show which values may differ. Give a second export with other sizes.")
    examples = []
    for path in paths:
        with Model.open(path) as model:
            proto = model.whole()
        examples.append(Example(proto, Path(path).name, [value.name for value in proto.graph.input]))
    return lessons.learn([examples], title or Path(paths[0]).stem)


def _from_torch(
    name: str, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str], **settings: Any
) -> "LearnedOperation":
    try:
        import torch
    except ModuleNotFoundError:
        how = install_command("torch")
        raise UsageError(f"Learning from a module needs torch. Install it: {how}") from None
    from surgeon.torch.pattern_learning.module_patterns import learn as run

    if len(dtypes) not in (1, len(shapes)):
        raise UsageError(f"Got {len(dtypes)} dtypes for {len(shapes)} shapes. Give one dtype, or one for each shape.")
    inputs = []
    for place, shape in enumerate(shapes):
        dtype = getattr(torch, dtypes[place if len(dtypes) > 1 else 0], None)
        if not isinstance(dtype, torch.dtype):
            raise UsageError(f"Unknown dtype {dtypes[min(place, len(dtypes) - 1)]!r}. Examples: float32, int64")
        floats = dtype.is_floating_point or dtype.is_complex
        inputs.append(torch.rand(shape).to(dtype) if floats else torch.randint(0, 2, shape).to(dtype))
    return run(name, *inputs, **settings)


def _parse_shape(text: str) -> tuple[int, ...]:
    try:
        parts = text.replace("x", ",").split(",") if text.strip() else []
        shape = tuple(map(int, parts[:-1] if parts and not parts[-1].strip() else parts))  # also (2,), as in Python
    except ValueError:
        shape = (-1,)
    if any(size < 1 for size in shape):
        raise UsageError(f"Invalid shape {text!r}. Example: 2,3")
    return shape


def _parse_argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"Expected NAME=VALUE, got {text!r}.")
    try:
        return name.strip(), ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name.strip(), value
