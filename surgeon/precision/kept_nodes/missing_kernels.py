"""Which nodes an execution provider has no kernel for in the new dtype, or its runtime does not take so, or ends by."""

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


def nodes_without_kernel(wiring: DtypeGraph, provider: str) -> dict[NodeAddress, str]:
    """The nodes that a provider would run in the new dtype by none of its own kernels, each with the reason.

    Of a provider that is a target too, the target's limits are asked.  What nothing is known of, a domain without
    schemas or a dtype that nothing tells, does not count against it.
    """
    kernels, new = ProviderSupport.of(provider), wiring.change.names[1]
    limits = limits_for(provider if provider in names() else "ort", provider, wiring.index)
    found: dict[NodeAddress, str] = {}
    for node in wiring.nodes():
        ports = wiring.ports[node]
        if ports.keep_reason or not (ports.following_inputs or ports.following_outputs):
            continue
        if not _has(wiring, kernels, node):
            found[node_address(node)] = f"{kernels.full_title} has no kernel for {node.op} in {new}"
        elif limits is not None and node.op in limits:
            halves = {node.inputs[place]: wiring.change.new for place in ports.following_inputs}
            broken = set(limits.of(node, halves)) - set(limits.of(node))
            found.update((node_address(node), told) for told, _ in sorted(broken)[:1])
    return found


def crashing_fused_matmuls(wiring: DtypeGraph) -> dict[NodeAddress, str]:
    """The products with which ONNX Runtime ends its process on a CPU in float16, each with the reason.

    See quirks.TRANSPOSED_FLOAT16_MATMUL.
    """
    if wiring.change.new != TensorProto.FLOAT16:
        return {}
    following = (node for node in wiring.nodes() if wiring.ports[node].following_inputs)
    merged = filter(_is_behind_batch_transpose, following)
    why = "ONNX Runtime merges it with the Transpose before it, which ends its process in float16"
    return {node_address(node): why for node in merged}


def _is_behind_batch_transpose(node: Node) -> bool:
    """Whether a factor of a product of matrices is a Transpose that ONNX Runtime must not merge into it."""
    known = traits_of(node.op)
    for place in known.products.factors or () if known.products.kind == "matmul" else ():
        maker = node.scope.producers.get(node.inputs[place])
        order = maker.attribute("perm") if maker is not None else None
        if order is not None and is_batch_transpose(order.ints):
            return True
    return False


def _has(wiring: DtypeGraph, kernels: ProviderSupport, node: Node) -> bool:
    domain, name = split_op(node.op)
    opset = node.scope.versions.get(domain, 1)
    version = schema(domain, name, opset)
    if version is None:
        return True
    ports, new = wiring.ports[node], wiring.change.new
    dtypes = [
        [new if place in told else wiring.dtype(node.scope, text) for place, text in enumerate(texts)]
        for texts, told in ((node.inputs, ports.following_inputs), (node.outputs, ports.following_outputs))
    ]
    return kernels.computes(domain, name, opset, variables(version, *dtypes))
