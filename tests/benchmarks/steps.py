"""From a part of a model that one looks at to a rule that fires there, by several tools.

`python -m tests.benchmarks.steps`.  The part is the GELU of the first layer of the DistilBERT that ships here, which
has four.  What a person types with each tool stands below and is run; a step is a line of it.  Netron and onnx-modifier
write no rules: what is typed after looking into them is one of these.
"""

import contextlib
import io
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx

import surgeon
from tests.command_line import ROOT

MODEL = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"
# By surgeon two clicks stand before: on the tensors where the part begins and where it ends.
SURGEON = """
view.select(["node_Div_146", "node_Erf_147", "node_Add_149", "node_Mul_151", "node_gelu"])
captured = surgeon.capture(model, view.selection)
@surgeon.rule(patterns=captured.rule.patterns)
def fused(g: surgeon.Graph, x: surgeon.Tensor) -> surgeon.Tensor:
    return g.ms_gelu(x)
surgeon.rewrite(model, fused, output=out)
"""
ONNXSCRIPT = """
from onnxscript.rewriter import pattern, rewrite
def found(op, x):
    halves = op.Mul(0.5, op.Add(op.Erf(op.Div(x, 2.0**0.5)), 1.0))
    return op.Mul(x, halves)
def fused(op, x, **_):
    return op.Gelu(x, _domain="com.microsoft")
rule = pattern.RewriteRule(found, fused)
onnx.save(rewrite(onnx.load(model), pattern_rewrite_rules=[rule]), out)
"""
GS = """
import onnx_graphsurgeon as gs
pattern = gs.GraphPattern()
x, root, one, half = (pattern.variable() for _ in range(4))
divided = pattern.add("divided", "Div", inputs=[x, root])
more = pattern.add("more", "Add", inputs=[pattern.add("erf", "Erf", inputs=[divided]), one])
product = pattern.add("product", "Mul", inputs=[half, more])
pattern.set_output_tensors([pattern.add("whole", "Mul", inputs=[x, product])])
graph = gs.import_onnx(onnx.load(model))
for match in pattern.match_all(graph):
    read, made = list(match.inputs)[0], list(match.outputs)[0]
    made.inputs.clear()
    graph.nodes.append(gs.Node("Gelu", inputs=[read], outputs=[made], domain="com.microsoft"))
onnx.save(gs.export_onnx(graph.cleanup().toposort()), out)
"""


def main() -> None:
    """Print what each shows of the model, what is typed, and at how many of the four places it fires."""
    print("| tool | lines that it shows of 180 nodes | lines typed | fires at |\n|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        for name, code in (("surgeon", SURGEON), ("onnxscript", ONNXSCRIPT), ("onnx-graphsurgeon", GS)):
            out = Path(folder) / f"{name}.onnx"
            typed(code, out)
            fired = sum(node.op_type == "Gelu" for node in onnx.load(out).graph.node)
            print(f"| {name} | {told(name):,} | {len(code.split(chr(10))) - 2} | {fired} of 4 |", flush=True)
    print(f"| polygraphy inspect | {told('polygraphy'):,} | it has no rules | |")


def typed(code: str, out: Path) -> None:
    """Run what is typed."""
    settings = {"__name__": "typed", "onnx": onnx, "surgeon": surgeon, "view": surgeon.view(MODEL)}
    settings |= {"model": str(MODEL), "out": str(out)}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, settings)


def told(tool: str) -> int:
    """How many lines the tool shows of the model as text."""
    if tool == "onnxscript":
        from onnxscript import ir

        return len(str(ir.load(MODEL)).splitlines())
    if tool == "onnx-graphsurgeon":
        import onnx_graphsurgeon as gs

        return len(str(gs.import_onnx(onnx.load(MODEL))).splitlines())
    own = (sys.executable, "-m", "surgeon", "inspect", str(MODEL))
    theirs = ("polygraphy", "inspect", "model", str(MODEL), "--show", "layers", "attrs", "weights")
    command = own if tool == "surgeon" else theirs
    return len(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())


if __name__ == "__main__":
    main()
