"""The command `surgeon convert`: converts a model to another precision."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from surgeon.cli.commands.edit import report_edit
from surgeon.cli.options import check_and_output_options, explain_invalid_names
from surgeon.cli.report_file import report_option

if TYPE_CHECKING:
    from surgeon.proof.check_options import CheckOptions

_DTYPES = ("float16", "bfloat16", "float32", "int32")


@click.command(short_help="Convert a model to float16, bfloat16 or another precision.")
@click.argument("source", metavar="IN")
@click.argument("output", metavar="OUT")
@click.option("--to", type=click.Choice(_DTYPES), default="float16", show_default=True, help="The new dtype.")
@click.option("--from", "from_", metavar="DTYPE", help="The old one.  [default: float32, or what --to is made of]")
@click.option(
    "--io",
    type=click.Choice(["keep", "convert"]),
    default="keep",
    show_default=True,
    help="Leave inputs and outputs of the model as they are, or have them of the new dtype too.",
)
@click.option(
    "--keep",
    multiple=True,
    metavar="WHAT",
    help="What keeps its dtype, with commas: op:Softmax, name:*/norm/*, rule:layer_norm; auto: what runs and known "
    "formulas say.  [default: auto]",
)
@click.option(
    "--max-error",
    type=float,
    default=1e-2,
    show_default=True,
    metavar="X",
    help="How far an output may move, as a part of its largest number.",
)
@click.option("--clamp", is_flag=True, help="Have weights that are too large saturate, instead of keeping them.")
@click.option(
    "--ep",
    metavar="NAME",
    help="The execution provider that is to run it: cpu, cuda, dml, tensorrt; what it has no kernel for in the new "
    "dtype is kept.  [default: ask none]",
)
@click.option("--rules", "-r", multiple=True, metavar="NAMES", help="Rules to run first, as for surgeon rewrite.")
@click.option("--dry-run", is_flag=True, help="Say what would be done and write nothing.")
@report_option("the report")
@check_and_output_options("model", "none", layers=False)
@explain_invalid_names
def convert(
    source: str,
    output: str,
    keep: Sequence[str],
    rules: Sequence[str],
    report_path: str | None,
    quiet: bool,
    options: "CheckOptions",
    **settings: Any,
) -> None:
    """Convert IN to another precision, the fewest nodes and Casts beside, and write OUT.

    What half precision does not hold is found by runs of IN and kept, each node with its reason; the result is held
    against IN.  IN and OUT may be the same file.  Example: surgeon convert in.onnx half.onnx --to float16
    """
    from surgeon.precision.convert import convert as run

    kept = [part.strip() for text in keep for part in text.split(",") if part.strip()]
    names = [part.strip() for text in rules for part in text.split(",") if part.strip()]
    report_edit(
        lambda: run(source, output=output, keep=kept or ("auto",), rules=names, options=options, **settings),
        (source, output),
        report_path=report_path,
        quiet=quiet,
    )
