"""The ops that a target defines, as onnx schemas."""

from collections.abc import Callable

import onnx

from surgeon.ops.schemas.node_check import learn_by, violations
from surgeon.ops.schemas.op_schema import Schema, converted, display_domain, normalize_domain
from surgeon.text import close_matches


class OwnOps:
    """Ops by `onnx.defs.OpSchema`; several of one name are versions, as in onnx.  For `Target(ops=)`.

    Give every op of a domain, because other names in it are reported as misspelt.

    Args:
        schemas: schemas of the ops.

    Examples:
        >>> from onnx.defs import OpSchema
        >>> from surgeon import OwnOps
        >>> floats = [("T", ["tensor(float)", "tensor(float16)"], "")]
        >>> x, y = OpSchema.FormalParameter("x", "T"), OpSchema.FormalParameter("y", "T")
        >>> ops = OwnOps(OpSchema("HardGelu", "acme", 1, inputs=[x], outputs=[y], type_constraints=floats))
        >>> ops.has("acme", "HardGelu"), ops.has("", "Relu")
        (True, False)
    """

    def __init__(self, *schemas: onnx.defs.OpSchema) -> None:
        self._versions: dict[tuple[str, str], list[Schema]] = {}
        for one in sorted(schemas, key=lambda item: item.since_version):
            domain = normalize_domain(one.domain)
            self._versions.setdefault((domain, one.name), []).append(converted(one, domain))
        self._domains = frozenset(domain for domain, _ in self._versions)

    def has(self, domain: str, op: str) -> bool:
        """Whether a node is meant to be one of them: by its domain, and in ai.onnx by its name."""
        return domain in self._domains if domain else (domain, op) in self._versions

    def check(
        self, node: onnx.NodeProto, opset: int, dtype_of: Callable[[str], int | None], in_function: bool
    ) -> list[str]:
        """Every violation of a node against its schema, one sentence each."""
        version = self._version(node, opset)
        if version is None:
            return [self._missing(normalize_domain(node.domain), node.op_type, opset)]
        return violations(version, node, dtype_of, in_function)

    def learn(self, node: onnx.NodeProto, opset: int, known: dict[str, int | None]) -> None:
        """Add to `known` (`TensorProto.DataType` by tensor) the output dtypes that the inputs determine."""
        version = self._version(node, opset)
        if version is not None:
            learn_by(version, node, known)

    def _missing(self, domain: str, name: str, opset: int) -> str:
        where, versions = display_domain(domain), self._versions.get((domain, name))
        if versions:
            return f"{where} has no {name} at version {opset}; {name} needs version {versions[0].since_version}."
        near = close_matches(name, (op for place, op in self._versions if place == domain))
        hint = f"the nearest are {', '.join(near)}" if near else "check the spelling"
        return f"{where} has no op {name}; {hint}."

    def _version(self, node: onnx.NodeProto, opset: int) -> Schema | None:
        versions = self._versions.get((normalize_domain(node.domain), node.op_type), [])
        return next((one for one in reversed(versions) if one.since_version <= opset), None)
