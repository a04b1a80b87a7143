"""What the peers run, file to file, each in a process of its own: `python peers.py PEER IN OUT`.

onnxscript   onnxscript.rewriter with one rule for the very form of GELU that the generated models hold
gs           onnx_graphsurgeon.import_onnx and export_onnx, changing nothing
ort          ONNX Runtime's offline optimizer (its extended level fuses GELU)
onnxslim     onnxslim.slim
limit        onnx.load and onnx.save, changing nothing
"""

from __future__ import annotations

import sys
from typing import Any


def onnxscript(source: str, target: str) -> None:
    import onnx_ir
    from onnxscript.rewriter import pattern

    def exact(op: Any, x: Any) -> Any:
        return op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, 1.4142135623730951)), 1.0)), 0.5)

    def gelu(op: Any, x: Any, **_: Any) -> Any:
        return op.Gelu(x, _domain="com.microsoft")

    model = onnx_ir.load(source)
    pattern.RewriteRuleSet([pattern.RewriteRule(exact, gelu)]).apply_to_model(model)
    onnx_ir.save(model, target)


def gs(source: str, target: str) -> None:
    import onnx
    import onnx_graphsurgeon

    onnx.save(onnx_graphsurgeon.export_onnx(onnx_graphsurgeon.import_onnx(onnx.load(source))), target)


def ort(source: str, target: str) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = target
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def onnxslim(source: str, target: str) -> None:
    import onnxslim as package

    package.slim(source, target)


def limit(source: str, target: str) -> None:
    import onnx

    onnx.save(onnx.load(source), target)


def gelus(source: str, _: str) -> None:
    """Not a peer: print the number of fused GELUs in a file, to see that a peer did the work."""
    import onnx

    nodes = onnx.load(source, load_external_data=False).graph.node
    sys.stdout.write(str(sum(node.op_type == "Gelu" and node.domain == "com.microsoft" for node in nodes)))


PEERS = {"onnxscript": onnxscript, "gs": gs, "ort": ort, "onnxslim": onnxslim, "limit": limit, "gelus": gelus}

if __name__ == "__main__":
    PEERS[sys.argv[1]](*sys.argv[2:4])
