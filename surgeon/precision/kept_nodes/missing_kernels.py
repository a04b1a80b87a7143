"""Nodes that an execution provider cannot run in the new dtype: no kernel, a limit, or a crash."""

from onnx import TensorProto

from surgeon.ir.scope import Node, split_op
from surgeon.ops.schemas import schema, variables
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.pipeline.acceptance.kernel_support import limits_for
from surgeon.precision.analyses.dtype_graph import DtypeGraph
from surgeon.precision.kept_nodes.selectors import NodeAddress, node_address
from surgeon.runtime.provider_support import ProviderSupport
from surgeon.runtime.quirks import is_batch_transpose
from surgeon.target_registry import names


def nodes_without_kernel(dtype_graph: DtypeGraph, provider: str) -> dict[NodeAddress, str]:
    """The nodes for which a provider has no kernel in the new dtype, each with the reason.

    The limits of a target with the provider's name count too.  Domains without schemas and unknown dtypes are not
    reported.
    """
    kernels, new = ProviderSupport.of(provider), dtype_graph.change.names[1]
    limits = limits_for(provider if provider in names() else "ort", provider, dtype_graph.index)
    found: dict[NodeAddress, str] = {}
    for node in dtype_graph.nodes():
        ports = dtype_graph.ports[node]
        if ports.keep_reason or not (ports.following_inputs or ports.following_outputs):
            continue
        if not _has(dtype_graph, kernels, node):
            found[node_address(node)] = f"{kernels.full_title} has no kernel for {node.op} in {new}"
        elif limits is not None and node.op in limits:
            halves = {node.inputs[place]: dtype_graph.change.new for place in ports.following_inputs}
            broken = set(limits.of(node, halves)) - set(limits.of(node))
            found.update((node_address(node), reason) for reason, _ in sorted(broken)[:1])
    return found


def crashing_fused_matmuls(dtype_graph: DtypeGraph) -> dict[NodeAddress, str]:
    """The matrix products that crash ONNX Runtime on a CPU in float16, each with the reason.

    See quirks.TRANSPOSED_FLOAT16_MATMUL.
    """
    if dtype_graph.change.new != TensorProto.FLOAT16:
        return {}
    following = (node for node in dtype_graph.nodes() if dtype_graph.ports[node].following_inputs)
    merged = filter(_is_behind_batch_transpose, following)
    why = "in float16, ONNX Runtime merges it with the preceding Transpose and crashes"
    return {node_address(node): why for node in merged}


def _is_behind_batch_transpose(node: Node) -> bool:
    """Whether a factor of a matrix product is a Transpose that ONNX Runtime must not merge into it."""
    known = traits_of(node.op)
    for place in known.products.factors or () if known.products.kind == "matmul" else ():
        maker = node.scope.producers.get(node.inputs[place])
        order = maker.attribute("perm") if maker is not None else None
        if order is not None and is_batch_transpose(order.ints):
            return True
    return False


def _has(dtype_graph: DtypeGraph, kernels: ProviderSupport, node: Node) -> bool:
    domain, name = split_op(node.op)
    opset = node.scope.versions.get(domain, 1)
    version = schema(domain, name, opset)
    if version is None:
        return True
    ports, new = dtype_graph.ports[node], dtype_graph.change.new
    dtypes = [
        [new if place in changing else dtype_graph.dtype(node.scope, text) for place, text in enumerate(texts)]
        for texts, changing in ((node.inputs, ports.following_inputs), (node.outputs, ports.following_outputs))
    ]
    return kernels.computes(domain, name, opset, variables(version, *dtypes))
