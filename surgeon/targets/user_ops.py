"""The ops that the user's libraries and Python files bring to a target."""

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import helper

from surgeon.ir.scope import Node, split_op
from surgeon.runtime.implementations.implementation import is_python, load
from surgeon.targets.lint.dtype_conflicts import InferredDtypes


class UserOps:
    """The ops of the user's libraries and Python files."""

    def __init__(self, files: Sequence[Path | str]) -> None:
        self._python = {(one.domain, one.op) for path in files if is_python(path) for one in load(path)}
        self._shared = [path for path in files if not is_python(path)]

    def __bool__(self) -> bool:
        return bool(self._python or self._shared)

    def supports(self, node: Node, dtypes: InferredDtypes) -> bool:
        """Whether a library has the op.  Libraries do not list their ops, so ONNX Runtime tries the node."""
        return bool(self._shared) and self._loads(node, dtypes)

    def implements(self, node: Node) -> bool:
        """Whether a Python file implements the op, which only surgeon runs."""
        return split_op(node.op) in self._python

    def _loads(self, node: Node, dtypes: InferredDtypes) -> bool:
        from surgeon.runtime.sessions.ort_session import OrtSession, SessionError

        domain, _ = split_op(node.op)
        value, known = helper.make_tensor_value_info, dtypes.node_dtypes(node)
        inputs = [value(name, known.get(name) or onnx.TensorProto.FLOAT, None) for name in filter(None, node.inputs)]
        outputs = [onnx.ValueInfoProto(name=name) for name in filter(None, node.outputs)]
        graph = helper.make_graph([node.proto], "probe", list({item.name: item for item in inputs}.values()), outputs)
        imports = [helper.make_opsetid("", 17), helper.make_opsetid(domain, node.scope.versions.get(domain, 1))]
        try:
            with OrtSession(helper.make_model(graph, ir_version=8, opset_imports=imports), self._shared):
                return True
        except SessionError as error:
            return not error.is_unsupported
