"""The command line: its commands by group, and their exit codes."""

import click

from surgeon.cli.command_group import TRACEBACK, CommandGroup

VERSION_HELP, TRACEBACK_HELP = "Print the version and exit.", "Print the traceback of an internal error."


def _version(ctx: click.Context, _: click.Parameter, is_set: bool) -> None:
    if is_set:
        from surgeon.versions import own_version

        click.echo(f"surgeon {own_version()}")
        ctx.exit()


def _traceback(ctx: click.Context, _: click.Parameter, is_set: bool) -> None:
    ctx.meta[TRACEBACK] = is_set


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help=VERSION_HELP)
@click.option("--traceback", is_flag=True, expose_value=False, callback=_traceback, help=TRACEBACK_HELP)
def main() -> None:
    """Rewrite, edit, convert and check ONNX models.  surgeon verifies each change and keeps the rest of the file.

    Example: surgeon rewrite in.onnx out.onnx
    Exit codes: 1 a check failed, 3 an expectation was not met
    """


main.epilog = 'Tab completion in bash: eval "$(_SURGEON_COMPLETE=bash_source surgeon)". Others: docs/install.md.'
main.summaries = {
    "Look": {
        "inspect": "Show the inputs, outputs, weights and ops of a model.",
        "view": "Open a model in the interactive viewer.",
        "draw": "Draw a model, or a part of it, as SVG.",
        "diff": "List the differences between two models, node by node.",
    },
    "Optimise": {
        "rewrite": "Replace subgraphs that rules match, and prove each replacement.",
        "convert": "Convert a model to float16, bfloat16 or another dtype.",
        "decoder": "Write a folder from which onnxruntime-genai generates text.",
        "upgrade": "Raise the opset without changing what the model computes.",
        "bench": "Compare the latency of models.",
    },
    "Verify": {
        "check": "List the nodes that a target cannot run.",
        "compare": "Run two models on the same inputs and compare outputs.",
        "explain": "Explain why a rule does not match.",
        "gate": "Report what got worse in models since a baseline.",
    },
    "Edit": {
        "edit": "Change names, sizes, inputs, outputs and metadata.",
        "extract": "Extract the part of a model between given tensors.",
        "split": "Split a model into consecutive parts.",
        "merge": "Connect two models into one.",
        "insert": "Replace everything between two cuts with one node.",
        "prepend": "Add image preprocessing to the inputs.",
        "append": "Add post-processing to the outputs (softmax, top-k, NMS).",
    },
    "Rules": {
        "rules": "List rules, show the manual of a rule, or prove it.",
        "new": "Create a rule file and its tests.",
        "capture": "Create a rule file from a part of a model.",
        "learn": "Print the pattern that exporters write for a torch module.",
    },
    "Automate": {
        "run": "Run a recipe on one model or on many.",
        "record": "Append a command line to a recipe.",
        "mcp": "Serve an assistant over the Model Context Protocol.",
    },
}
