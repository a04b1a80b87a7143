"""Answers a view's requests: the folded graph, types of tensors, details of a node, and rules near a node."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from surgeon.diagnostics.explanation import match_covering, mismatches_at
from surgeon.display.pictures.diagram import array_text, attribute_text, type_text
from surgeon.edits.selection import is_constant
from surgeon.errors import SurgeonError, UsageError
from surgeon.file.model import Model
from surgeon.file.model_like import ModelLike, model_name, resolve_model
from surgeon.ir.index import Index
from surgeon.ir.scope import DEFAULT_DOMAINS, Node, Scope, split_op
from surgeon.ops.schemas import knows_domain, schema
from surgeon.ops.traits.op_category import op_category
from surgeon.pipeline.rewriting.rule_run import open_index
from surgeon.rules.catalogue import all_rules
from surgeon.rules.matching.match import Match
from surgeon.rules.mismatches.mismatch import Mismatch, mismatch_text
from surgeon.rules.rule import Rule
from surgeon.shapes.index_shapes import shapes_of
from surgeon.targets.inspection.outline import OutlineGroup, build_outline
from surgeon.targets.inspection.provenance import module_path, source_location, torch_op

WEIGHTS = ("of weights alone",)  # the scope of nodes that depend only on weights, if they have none
SHOWN_ELEMENTS, SHOWN_MISMATCHES, LONGEST_VALUE = 16, 6, 400


class ViewerSession:
    """One model, opened once for many requests; it is never changed."""

    def __init__(self, source: ModelLike, target: str = "ort") -> None:
        self.title = Path(model_name(source, "a model")).name
        self.target = target
        self._model = Model.open(resolve_model(source))
        self.index: Index = open_index(self._model)
        self._scopes = {scope.label: scope for scope in reversed(self.index.scopes)}
        self._non_constants: dict[str, list[Node]] = {}

    def close(self) -> None:
        """Close the file."""
        self._model.close()

    def respond(self, kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The response to a request: the answer, or an error."""
        try:
            return {"answer": self.answer(kind, given)}
        except SurgeonError as error:
            return {"error": str(error)}
        except Exception as error:  # noqa: BLE001 - the page shows the error and continues
            return {"error": f"Internal error in surgeon: {type(error).__name__}: {error}"}

    def answer(self, kind: str, given: Mapping[str, Any]) -> Any:
        """The answer to a request, as JSON can hold it.  Raises UsageError for an invalid request."""
        scope = self._scopes.get(str(given.get("scope", "")))
        if scope is None:
            raise UsageError("The model has no such graph; load the view again.")
        if kind == "graph":
            return self.graph(scope)
        if kind == "types":
            return self.types(scope)
        place = given.get("node")
        if kind not in ("node", "rules") or not isinstance(place, int) or not 0 <= place < len(scope.nodes):
            raise UsageError("A view asks for a graph, for types, for a node or for rules; load the view again.")
        node = scope.nodes[place]
        return self.node(scope, node) if kind == "node" else self.rules(node)

    def scope(self, label: str = "") -> Scope:
        """A graph by its label.  Raises UsageError for an unknown label."""
        if label not in self._scopes:
            raise UsageError(f"The model has no local function or body named {label!r}.")
        return self._scopes[label]

    def non_constants(self, scope: Scope) -> list[Node]:
        """The nodes that are boxes: all except Constants, which are shown in their consumers."""
        if scope.label not in self._non_constants:
            self._non_constants[scope.label] = [node for node in scope.nodes if node.op != "Constant"]
        return self._non_constants[scope.label]

    def graph(self, scope: Scope) -> dict[str, Any]:
        """A folded graph, by columns."""
        nodes = self.non_constants(scope)
        ops = {op: place for place, op in enumerate(dict.fromkeys(node.op for node in nodes))}
        constant_nodes = self._constant_nodes(scope, nodes)
        groups, group_of = self._groups(scope, nodes, constant_nodes)
        numbers: dict[str, int] = {}

        def number(name: str) -> int:
            return numbers.setdefault(name, len(numbers))

        given = [name for name in scope.input_names if name not in scope.initializers]
        columns = {
            "name": [node.label for node in nodes],
            "op": [ops[node.op] for node in nodes],
            "place": [node.slot for node in nodes],
            "group": group_of,
            "inputs": [[number(name) for name in node.inputs if name] for node in nodes],
            "outputs": [[number(name) for name in node.outputs if name] for node in nodes],
        }
        ends = {"inputs": given, "outputs": scope.output_names}
        sides = {side: [number(name) for name in names] for side, names in ends.items()}
        constants = {node.outputs[0] for node in scope.by_op.get("Constant", ()) if node.outputs}
        stored = constants.union(scope.initializers, scope.sparse).difference(given)
        stored.update(name for node in constant_nodes for name in node.outputs)
        return {
            "title": self.title,
            "scopes": [item.label for item in self.index.scopes],
            "ops": list(ops),
            "kinds": [self._kind(op) for op in ops],
            "categories": [op_category(op) for op in ops],
            "nodes": columns,
            "groups": groups,
            "tensors": list(numbers),
            **sides,
            "stored": [place for name, place in numbers.items() if name in stored],
        }

    def _groups(
        self, scope: Scope, nodes: Sequence[Node], constant_nodes: Collection[Node]
    ) -> tuple[dict[str, list[Any]], list[int]]:
        """The groups by columns, the root first, and the innermost group of each node."""
        protos = scope.proto.node
        paths = [module_path(protos[node.slot]) or (WEIGHTS * (node in constant_nodes)) for node in nodes]
        root = build_outline(paths, [node.op for node in nodes])
        columns: dict[str, list[Any]] = {"label": [], "parent": [], "kind": [], "count": []}
        group_of = [0] * len(nodes)
        pending = [(root, -1)]
        while pending:
            group, parent = pending.pop()
            number = len(columns["label"])
            inside = [item for item in group.items if isinstance(item, OutlineGroup)]
            count = sum(1 for _ in group.nodes())
            for name, value in zip(columns, (group.label, parent, group.kind, count), strict=True):
                columns[name].append(value)
            for item in group.items:
                if not isinstance(item, OutlineGroup):
                    group_of[item] = number
            pending += [(item, number) for item in reversed(inside)]
        return columns, group_of

    def _constant_nodes(self, scope: Scope, nodes: Sequence[Node]) -> set[Node]:
        """Nodes without a scope that read only stored tensors: their outputs are constant."""
        found: set[Node] = set()
        made: set[str] = set()
        for node in nodes:
            read = [name for name in node.inputs if name]
            if read and all(name in made or is_constant(scope, name) for name in read):
                found.add(node)
                made.update(node.outputs)
        return found

    def _kind(self, op: str) -> str:
        domain, _ = split_op(op)
        if any(item.label == f"function {op}" for item in self.index.functions):
            return "function"
        if domain in DEFAULT_DOMAINS:
            return "onnx"
        return "runtime" if knows_domain(domain) else "foreign"

    def types(self, scope: Scope) -> dict[str, Any]:
        """The dtype and shape of each tensor of a graph, in the order of `graph`, with equal texts once."""
        shapes, table, found = shapes_of(self.index), dict[str, int](), list[int]()
        for name in self.graph(scope)["tensors"]:
            dtype, shape = shapes.facts(scope, name)
            found.append(table.setdefault(type_text(dtype or 0, shape), len(table)))
        return {"table": list(table), "of": found}

    def node(self, scope: Scope, node: Node) -> dict[str, Any]:
        """The details of a node: its attributes, constants by value, and its origin."""
        proto = node.proto
        _, op = split_op(node.op)
        names = _formals(scope, node)
        read = [(formal, name) for formal, name in zip(names, node.inputs, strict=True) if name]
        constants = ((f"{formal} {name}", self._value(scope, name)) for formal, name in read)
        origin = ", ".join(filter(None, (source_location(proto), torch_op(proto))))
        return {
            "formals": [formal for formal, _ in read],
            "constants": [[name, value] for name, value in constants if value],
            "attributes": [[item.name, attribute_text(op, item)] for item in proto.attribute],
            "origin": origin or proto.doc_string[:LONGEST_VALUE],
        }

    def _value(self, scope: Scope, name: str) -> str | None:
        """A small constant by value; None for a large one, or for a tensor that is not constant."""
        shape = self.index.constants.shape(scope, name)
        if shape is None or _size(shape) > SHOWN_ELEMENTS:
            return None
        found = self.index.constants.get(scope, name)
        return None if found is None else array_text(found.array)[:LONGEST_VALUE]

    def rules(self, node: Node) -> dict[str, Any]:
        """The rules that match a node, with the nodes of each match, and the near misses of other rules."""
        fits, near = list[tuple[Rule, Match]](), list[Mismatch]()
        for _, _, rule in all_rules():
            try:
                match = match_covering(self.index, rule, self.target, node)
                mismatches = mismatches_at(self.index, rule, self.target, ep=None, node=node) if match is None else []
            except SurgeonError:  # an invalid rule of a pack is skipped
                continue
            if match is not None:
                fits.append((rule, match))
            near += [miss for miss in mismatches[:1] if miss.node and miss.matched]
        near.sort(key=lambda miss: (miss.total - miss.matched, -miss.matched))
        fits.sort(key=lambda fit: (not fit[0].is_exact, -len(fit[1].nodes)))
        fitting = [(f"{rule.name}{'' if rule.is_exact else ' (approximate)'}: {match.pattern.name}", match.nodes)
                for rule, match in fits]
        return {
            "fits": [[text, [item.slot for item in nodes]] for text, nodes in fitting],
            "near": [mismatch_text(miss) for miss in near[:SHOWN_MISMATCHES]],
        }


def _formals(scope: Scope, node: Node) -> list[str]:
    """The name of each input in the schema."""
    domain, op = split_op(node.op)
    known = schema(domain, op, scope.versions.get(domain))
    names = [item.name for item in known.inputs] if known is not None else []
    return [names[place] if place < len(names) else f"input {place}" for place in range(len(node.inputs))]


def _size(shape: Sequence[int]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size

