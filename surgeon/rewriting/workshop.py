"""Makes replacements, once for all matches that are alike, and holds them against the schemas."""

from typing import Any

import onnx

from surgeon.errors import Refused, RuleError
from surgeon.indexing.types import Types
from surgeon.matching.compile import Compiled
from surgeon.matching.match import Match
from surgeon.ops.node_check import check_node
from surgeon.ops.schemas import schema
from surgeon.rewriting.fragment import Fragment, Ref, build
from surgeon.rewriting.rule import Plan
from surgeon.rewriting.splice import import_version


class Workshop:
    """The fragments of one run.

    One that its rule builds without a look at shapes or values serves every match that binds the same captures (and,
    if it asked for dtypes, the same dtypes).
    """

    def __init__(self, types: Types) -> None:
        self._types = types
        self._built: dict[Any, Fragment] = {}
        self._by_dtype: set[Any] = set()
        self._checked: dict[Any, Fragment] = {}  # keeps alive what it knows by id

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
        types, scope = self._types, match.scope
        return tuple([types.dtype(scope, held) for held in match.bound.values() if isinstance(held, str)])

    def require_valid(self, match: Match, fragment: Fragment) -> None:
        """Refuse a replacement whose nodes break their schemas, before anything is edited.

        Raises Refused where it does not suit this model, RuleError where it would suit none.
        """
        scope, types = match.scope, self._types
        dtypes = {key: types.dtype(scope, match.tensor(key)) for key in fragment.captures}
        key = (id(fragment), tuple(dtypes.values()), scope.opset)
        if key in self._checked:
            return
        for node in fragment.as_protos():
            known = {str(Ref("capture", key)): dtype for key, dtype in dtypes.items()}
            opset = scope.versions.get(node.domain) or import_version(node.domain, node.op_type)
            complaints = check_node(node, opset, known.get, scope.function is not None)
            if complaints:
                _refuse_at_any_opset(node, scope.function is not None)
                raise Refused(f"what would be written breaks its schema: {complaints[0]}")
        self._checked[key] = fragment


def _refuse_at_any_opset(node: onnx.NodeProto, in_function: bool) -> None:
    """Raise RuleError for a node that is wrong whatever the model: the rule is to blame."""
    newest = schema(node.domain, node.op_type, None)
    complaints = check_node(node, newest.since_version if newest else 1, lambda _: None, in_function)
    if complaints:
        raise RuleError(f"What the rule writes breaks its schema: {complaints[0].rstrip('.')}; mend the rule.")
