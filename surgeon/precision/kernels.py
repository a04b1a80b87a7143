"""Which nodes an execution provider has no kernel for in the new dtype."""

from surgeon.indexing.scope import Node, split_op
from surgeon.ops.schemas import schema
from surgeon.precision.keeping import Place, place_of
from surgeon.precision.wiring import Wiring
from surgeon.running.kernels import Kernels, variables


def without_kernel(wiring: Wiring, provider: str) -> dict[Place, str]:
    """The nodes that a provider would run in the new dtype by none of its own kernels, each with the reason.

    What nothing is known of, a domain without schemas or a dtype that nothing tells, does not count against it.
    """
    kernels, new = Kernels.of(provider), wiring.change.names[1]
    found: dict[Place, str] = {}
    for node in wiring.nodes():
        ports = wiring.ports[node]
        if (ports.takes or ports.makes) and not ports.pinned and not _has(wiring, kernels, node):
            found[place_of(node)] = f"{kernels.full_title} has no kernel for {node.op} in {new}"
    return found


def _has(wiring: Wiring, kernels: Kernels, node: Node) -> bool:
    domain, name = split_op(node.op)
    opset = node.scope.versions.get(domain, 1)
    version = schema(domain, name, opset)
    if version is None:
        return True
    ports, new = wiring.ports[node], wiring.change.new
    dtypes = [
        [new if place in told else wiring.dtype(node.scope, text) for place, text in enumerate(names)]
        for names, told in ((node.inputs, ports.takes), (node.outputs, ports.makes))
    ]
    return kernels.computes(domain, name, opset, variables(version, *dtypes))
