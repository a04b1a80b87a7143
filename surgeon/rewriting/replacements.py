"""Makes replacements, once for all matches that are alike, and holds them against the schemas."""

from typing import Any

import onnx

from surgeon.edit.fragment import Fragment, Ref, build
from surgeon.edit.splice import import_version
from surgeon.errors import Refused, RuleError
from surgeon.indexing.index import Index
from surgeon.indexing.scope import Scope
from surgeon.matching.compile import Compiled
from surgeon.matching.match import Match
from surgeon.ops.node_check import check_node
from surgeon.ops.schemas import dtype_number, learn_dtypes, schema
from surgeon.rewriting.runnable import NoKernel, lacking_kernel
from surgeon.rules.rule import Plan
from surgeon.shapes.indexed import shapes_of


class Workshop:
    """The fragments of one run.

    One that its rule builds without a look at shapes or values serves every match that binds the same captures (and,
    if it asked for dtypes, the same dtypes).
    """

    def __init__(self, index: Index, provider: str | None = None) -> None:
        """provider: the execution provider that is to run what is made, None for any."""
        self._index, self._provider = index, provider
        self._built: dict[Any, Fragment] = {}
        self._by_dtype: set[Any] = set()
        self._run: dict[Any, NoKernel | None] = {}
        self._checked: dict[Any, tuple[Fragment, NoKernel | None]] = {}  # keeps alive what it knows by id

    def build(self, plan: Plan, compiled: Compiled, match: Match) -> Fragment:
        """The replacement of a match.  Raises what the rule's own code raises, Refused among it."""
        captures = tuple([(name,) if held is None else name for name, held in match.bound.items()])
        kind = (plan.form.function, compiled.pattern, match.scope.opset, id(match.scope.versions), captures)
        key = (kind, self._dtypes(match) if kind in self._by_dtype else ())
        if key in self._built:
            return self._built[key]
        match.inspected = match.asked_dtype = False
        fragment = build(plan.form.function, match)
        numbers = any(isinstance(held, tuple) for held in match.bound.values())
        if not match.inspected and not numbers:
            if match.asked_dtype:
                self._by_dtype.add(kind)
                key = (kind, self._dtypes(match))
            self._built[key] = fragment
        return fragment

    def _dtypes(self, match: Match) -> tuple[int | None, ...]:
        shapes, scope = shapes_of(self._index), match.scope
        return tuple([shapes.dtype(scope, held) for held in match.bound.values() if isinstance(held, str)])

    def require_valid(self, match: Match, fragment: Fragment) -> NoKernel | None:
        """Refuse a replacement whose nodes break their schemas, before anything is edited.

        Returns the node that the execution provider cannot run, if there is one.  Raises Refused where it does not suit
        this model, RuleError where it would suit none.
        """
        scope, shapes = match.scope, shapes_of(self._index)
        dtypes = {key: shapes.dtype(scope, match.tensor(key)) for key in fragment.captures}
        made = tuple([shapes.dtype(scope, name) for name in match.outputs])
        key = (id(fragment), tuple(dtypes.values()), made, scope.opset)
        if key in self._checked:
            return self._checked[key][1]
        known = {str(Ref("capture", key)): dtype for key, dtype in dtypes.items()}
        for place, constant in enumerate(fragment.constants):
            if constant.like is None and constant.values.dtype.kind != "S":
                known[str(Ref("constant", place))] = dtype_number(constant.values.dtype)
        for ref, dtype in zip(fragment.outputs, made, strict=True):
            known.setdefault(str(ref), dtype)
        nodes = list(fragment.as_protos())
        for node in nodes:
            opset = scope.versions.get(node.domain) or import_version(node.domain, node.op_type)
            complaints = check_node(node, opset, known.get, scope.function is not None)
            if complaints:
                _refuse_at_any_opset(node, scope.function is not None)
                raise Refused(f"what would be written breaks its schema: {complaints[0]}")
            learn_dtypes(node, opset, known)
        lacking = self._lacking(fragment, nodes, known, scope)
        self._checked[key] = fragment, lacking
        return lacking

    def _lacking(
        self, fragment: Fragment, nodes: list[onnx.NodeProto], known: dict[str, int | None], scope: Scope
    ) -> NoKernel | None:
        """The node that the provider cannot run; asked once for all fragments of the same nodes and dtypes."""
        if self._provider is None:
            return None
        wired = tuple([(node.kind, node.inputs) for node in fragment.nodes])
        key = (wired, tuple(known.values()), scope.opset, id(scope.versions))
        if key not in self._run:
            self._run[key] = lacking_kernel(self._provider, nodes, known, scope.versions)
        return self._run[key]


def _refuse_at_any_opset(node: onnx.NodeProto, in_function: bool) -> None:
    """Raise RuleError for a node that is wrong whatever the model: the rule is to blame."""
    newest = schema(node.domain, node.op_type, None)
    complaints = check_node(node, newest.since_version if newest else 1, lambda _: None, in_function)
    if complaints:
        raise RuleError(f"What the rule writes breaks its schema: {complaints[0].rstrip('.')}; mend the rule.")
