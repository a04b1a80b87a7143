"""The command line and its exit codes.

0  success
1  a check failed, or was unproved with --require-proof; proved sites are written if the faulty ones are known
2  bad input or usage
3  --expect was not met; nothing was written
"""

import click

from surgeon.cli.command_group import TRACEBACK, CommandGroup


def _version(ctx: click.Context, _: click.Parameter, is_set: bool) -> None:
    if is_set:
        from surgeon.versions import own_version

        click.echo(f"surgeon {own_version()}")
        ctx.exit()


def _traceback(ctx: click.Context, _: click.Parameter, is_set: bool) -> None:
    ctx.meta[TRACEBACK] = is_set


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version and leave."
)
@click.option(
    "--traceback", is_flag=True, expose_value=False, callback=_traceback, help="Show where a defect of surgeon is."
)
def main() -> None:
    """Graph surgery for exported ONNX models: every change you asked for, nothing else, and each one proved.

    Exit codes: 0 fine, 1 a check failed, 2 bad input or usage, 3 --expect not met, 4 a defect of
    surgeon.
    """


main.summaries = {
    "Look": {
        "inspect": "Show what is in a model.",
        "view": "Open a model in the viewer, in a browser.",
        "draw": "Draw a model, or a part of it, as an SVG file.",
        "diff": "Say how two models differ, node by node.",
    },
    "Optimise": {
        "rewrite": "Replace what rules recognise, prove it, and write.",
        "convert": "Convert a model to float16, bfloat16 or another dtype.",
        "upgrade": "Raise the opset without changing what any node means.",
        "bench": "Measure how long models take, compared with each other.",
    },
    "Verify": {
        "check": "Say what keeps a model from running on a target.",
        "compare": "Run two models side by side and compare their outputs.",
        "explain": "Say why rules do not fire.",
    },
    "Edit": {
        "edit": "Change a whole model: names, sizes, inputs and outputs.",
        "extract": "Cut a part out of a model, between tensors.",
        "split": "Cut a model into parts that follow each other.",
        "merge": "Make two models one.",
        "insert": "Put one node in the place of all between two cuts.",
        "prepend": "Put image preprocessing in front of a model.",
        "append": "Append post-processing: argmax, softmax, top-k, NMS.",
    },
    "Rules": {
        "rules": "List the rules, print the manual of one, or prove it.",
        "new": "Write files to start from.",
        "capture": "Write a rule from what lies between two cuts of a model.",
        "learn": "Learn a pattern from a torch module, or from models.",
    },
    "Automate": {
        "run": "Run a recipe: edits and rules in order.",
        "record": "Write a command line as a recipe.",
    },
}
