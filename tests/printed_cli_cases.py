"""Messages of the command line and of reports that print a command; see `printed_command_cases`."""

from tests.printed_command_models import FIXED_DETECTOR, RECIPE, RELU, at
from tests.printed_commands import Case

CLI_CASES = [
    Case(
        "surgeon.cli.commands.append.requested_edits",
        RELU,
        "record recipe.toml append IN OUT ORIGINAL",
        "surgeon merge IN @/original.onnx OUT --connect OUTPUT=INPUT",
        {"OUTPUT": "y", "INPUT": "u"},
        says="PROVED",
        original=at(17, "(float[2, 4] u) => (float[2, 4] v) { v = Neg(u) }"),
    ),
    Case(
        "surgeon.cli.commands.capture.capture",
        at(17, "(float[2, 4] x) => (float[2, 4] y) { a = Neg(x) y = Neg(a) }"),
        "capture IN --from x --to y --name both",
        "surgeon rewrite @/in.onnx OUT --rules ./both.py",
        says="PROVED   1 of 1",
        written={"both.py": ('g.op("my.domain::Both", x)', "g.identity(x)")},
    ),
    Case(
        "surgeon.cli.commands.rules.rules",
        RELU,
        "rules --prove",
        "surgeon rules NAMES --prove",
        {"NAMES": "constant_if"},
        says="PROVED",
    ),
    Case(
        "surgeon.display.terminal.rule_manual.postprocessing",
        at(17, FIXED_DETECTOR),
        "rules nms",
        "surgeon append IN OUT nms",
        more="--iou 0.5",
        says="PROVED",
    ),
    Case(
        "surgeon.automation.recipes.recipe_file.load_recipe",
        at(17, FIXED_DETECTOR),
        "run IN OUT recipe.toml",
        "surgeon run RECIPE IN OUT",
        {"RECIPE": "recipe.toml"},
        says="UNCHANGED",
        files={"recipe.toml": RECIPE},
    ),
    Case(
        "surgeon.cli.fleet_options._missing_model_message",
        RELU,
        "run IN OUT",
        "surgeon run RECIPE.toml @/in.onnx @/first.onnx",
        {"RECIPE": "recipe"},
        says="UNCHANGED",
        files={"recipe.toml": RECIPE},
    ),
    Case(
        "surgeon.cli.fleet_options._missing_model_message",
        RELU,
        "run IN OUT",
        "surgeon rewrite @/in.onnx @/first.onnx",
        says="UNCHANGED",
    ),
    Case(
        "surgeon.display.content.gate._update",
        RELU,
        "gate IN --baseline facts.json",
        "surgeon gate @/in.onnx --baseline facts.json --update",
        says="facts.json",
    ),
    Case(
        "surgeon.cli.command_suggestions.unknown_command",
        RELU,
        "IN --rules gelu",
        "surgeon inspect @/in.onnx",
        says="Relu",
    ),
    Case(
        "surgeon.cli.command_suggestions._hint",
        RELU,
        "new my_own_relu",
        "surgeon new rule my_own_relu",
        says="They pass as they are",
    ),
]
