"""Replaces matches in an index by fragments; `surgeon.ir.mutations` changes the tables."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from onnx import NodeProto

from surgeon.errors import require
from surgeon.file.protobuf.node_encoder import FROM
from surgeon.ir.constants import CONSTANT_OPS
from surgeon.ir.fresh_names import FreshNames
from surgeon.ir.index import Index
from surgeon.ir.index_patch import record_now
from surgeon.ir.mutations import (
    add_initializer,
    attach,
    detach,
    drop_initializer,
    import_domain,
    listed_in,
    mark_equal,
    merge_initializers,
    move,
    put,
    replace_uses,
    set_known_value,
    sweep,
)
from surgeon.ir.scope import Node, Scope
from surgeon.ops.builder.graph import Graph
from surgeon.ops.schemas import knows_domain, schema
from surgeon.ops.traits.trait_lookup import IDENTITY_OPS
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.shape_uses import ShapeUse
from surgeon.rules.replacing.insertion_point import can_redirect, insertion_point, redirect_shape_use, require_shareable
from surgeon.rules.replacing.node_builder import NodeBuilder, constant_node, provenance
from surgeon.rules.replacing.recreated_nodes import can_copy, nodes_in_position, put_in_place, recreated_nodes
from surgeon.rules.replacing.replacement import Replacement, ReplacementConstant, ReplacementNode, TensorRef
from surgeon.rules.replacing.splice_template import SpliceTemplate

NONE: Mapping[Node, Node] = MappingProxyType({})
EMPTY, FIRST = TensorRef("empty"), TensorRef("inner", 0)


@dataclass(eq=False, slots=True)
class RewriteStep:
    """One rewrite in the edit log."""

    rule: str
    """Name of the rule."""
    match: Match
    """The match that it replaced."""
    fragment: Replacement
    """The replacement."""
    root: Node
    """The node that produced the first output."""
    added: Sequence[Node] = ()
    """Inserted nodes."""
    kept: Mapping[Node, Node] = field(default_factory=lambda: NONE)
    """Inserted node -> removed node with the same record, for nodes that the rule recreates unchanged."""
    orphans: Sequence[Node] = ()
    """Nodes that were removed because only the match used them."""
    renamed: dict[str, str] | None = None
    """Output -> the tensor that its readers read instead."""
    before: Sequence["RewriteStep"] = ()
    """Earlier steps that this one depends on, through removed, kept or redirected nodes."""
    is_for_sizes: bool = False
    """Whether it only redirects a reader of sizes, so that a match can be removed."""

    @property
    def scope(self) -> Scope:
        """The scope that it changed."""
        return self.match.scope

    @property
    def removed(self) -> tuple[Node, ...]:
        """The nodes that it replaced."""
        return self.match.nodes

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs of the replaced nodes."""
        return self.match.outputs


class Splicer:
    """Applies rewrites to an index, one after the other, and keeps names unique across all scopes."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.steps: list[RewriteStep] = []
        self.step_of: dict[Node, RewriteStep] = {}  # by the nodes that are not in the file
        self.names = FreshNames(index)
        self.inner: set[str] = set()  # tensors that the source lacks
        self._redirectors: dict[Node, list[RewriteStep]] = {}
        self._shared: dict[Hashable, str] = {}
        self._templates: dict[object, tuple[Replacement, SpliceTemplate | None]] = {}  # by template

    @cached_property
    def _had_rules(self) -> bool:
        """Whether surgeon wrote the source, so that its nodes may have metadata about their origin."""
        return self.index.model.contains_word(FROM.encode())

    def apply(self, match: Match, fragment: Replacement, rule: str) -> RewriteStep:
        """Replace a match that passed `require_writable`."""
        if not match.nodes:
            return self._merge_initializers(match, fragment, rule)
        if match.template is not None:
            step = self._apply_template(match, fragment, rule)
            if step is not None:
                return step
        redirections = [self._redirect_sizes(match, asked, rule) for asked in match.sizes]
        scope = match.scope
        root = match.root
        step = RewriteStep(rule, match, fragment, root)
        slot, place, late = insertion_point(match)
        kept = recreated_nodes(match, fragment)
        stays = nodes_in_position(match, fragment, kept, slot) if kept else ()
        gone = [node for node in match.nodes if node not in kept.values()] if kept else match.nodes
        if root not in gone:
            root = gone[-1]
        proto = root.proto
        label = proto.name or root.label
        maker = NodeBuilder(
            self.names.fresh,
            scope,
            root,
            label=label,
            slot=slot,
            provenance=provenance(scope, gone, proto, rule=rule, had_rules=self._had_rules),
        )
        if len(match.nodes) == len(fragment.nodes) == 1 and root.op == fragment.nodes[0].qualified:
            maker.name = proto.name
        names = _tensor_names(match, fragment, maker, kept)
        for number in stays:
            old, outputs = kept[number], [names[ref] for ref in fragment.nodes[number].makes]
            put_in_place(scope, old, self._recreate(step, old, old.slot, outputs))
        outside = detach(scope, match.nodes, match.outputs, kept.values())
        made: list[Node] = []
        for number, wanted in enumerate(fragment.nodes):
            if number in kept:
                if number not in stays:
                    made.append(self._recreate(step, kept[number], slot, [names[ref] for ref in wanted.makes]))
                continue
            for ref in wanted.reads:
                if ref.kind == "constant" and ref not in names:
                    made += self._constant(maker, fragment.constants[ref.key], ref, names)
            made.append(maker.node(wanted, names))
        made += self._remaining_outputs(maker, step, names)
        for node in late:
            move(scope, node, slot)
        put(scope, slot, place, [*made, *late])
        if step.kept:
            aside = [node for node in step.kept if node.slot != slot]
            made = [*(node for node in aside if node.slot < slot), *made, *(node for node in aside if node.slot > slot)]
        self._add_nodes(step, made)
        for name, ref in zip(match.outputs, fragment.outputs, strict=True):
            if self._is_constant_now(scope, name, ref, names):
                self.index.constants.forget()
            if ref.kind == "constant" and fragment.constants[ref.key].like is None:
                set_known_value(scope, name, fragment.constants[ref.key].values)
        self._import_domains(scope, made)
        for function in fragment.functions:
            self.index.local.add(function)
        step.orphans = self._drop_orphans(scope, outside)
        step.before = [*self._dependencies(step), *redirections] if redirections else self._dependencies(step)
        self.steps.append(step)
        return step

    def _apply_template(self, match: Match, fragment: Replacement, rule: str) -> RewriteStep | None:
        """As `apply`, if the site differs from an earlier one only in names; else None."""
        known = self._templates.get(match.template)
        if known is None or known[0] is not fragment:
            self._templates[match.template] = fragment, SpliceTemplate.of(match, fragment)
            return None  # the first step imports the domains of new nodes
        template, scope, root = known[1], match.scope, match.root
        if template is None or scope.bodies or self._redirectors or listed_in(scope, root.slot):
            return None
        if not match.is_original:
            return None
        step = RewriteStep(rule, match, fragment, root)
        proto = root.proto
        carried = provenance(scope, match.nodes, proto, rule=rule, had_rules=self._had_rules)
        maker = NodeBuilder(
            self.names.fresh, scope, root, label=proto.name or root.label, slot=root.slot, provenance=carried
        )
        names = ["", *match.outputs, *map(match.tensor, template.captures)]
        names += [maker.tensor(op, place) for op, place in template.inner]
        outside = detach(scope, match.nodes, match.outputs, ())
        written = [
            maker.named(made, tuple([names[place] for place in reads]), tuple([names[place] for place in makes]))
            for made, reads, makes in template.nodes
        ]
        put(scope, root.slot, 0, written)
        self._add_nodes(step, written)
        orphans = self._drop_orphans(scope, outside)
        if orphans:
            step.orphans = orphans
            step.before = self._dependencies(step)
        self.steps.append(step)
        return step

    def _add_nodes(self, step: RewriteStep, made: Sequence[Node]) -> None:
        """Add the nodes of a step to its scope."""
        for node in made:
            self.step_of[node] = step
            attach(step.scope, node)
            if node not in step.kept:
                self.inner.update([name for name in node.outputs if name not in step.outputs])
        step.added = made

    def _redirect_sizes(self, match: Match, asked: ShapeUse, rule: str) -> RewriteStep:
        """Read sizes of an inner tensor from other tensors: a separate step."""
        step = self.apply(*redirect_shape_use(match, asked), rule)
        step.is_for_sizes = True
        return step

    def _recreate(self, step: RewriteStep, old: Node, slot: int, outputs: Sequence[str]) -> Node:
        """A node with the record of a removed one and the names of its outputs now, not yet part of the scope."""
        record, now = record_now(self.index, old), (*outputs, *old.outputs[len(outputs) :])
        if now != old.outputs:
            proto = NodeProto.FromString(record)
            proto.output[:] = now
            record = proto.SerializeToString()
        new = Node(old.op, old.inputs, now, scope=old.scope, slot=slot, encoded=record)
        step.kept = {**step.kept, new: old}
        return new

    def _merge_initializers(self, match: Match, fragment: Replacement, rule: str) -> RewriteStep:
        """Redirect readers of initializers to others.  Nodes stay unchanged: no dependencies between steps arise."""
        scope = match.scope
        instead = {name: match.tensor(ref.key) for name, ref in zip(match.outputs, fragment.outputs, strict=True)}
        step = RewriteStep(rule, match, fragment, match.root, renamed=instead)
        merge_initializers(scope, instead)
        step.orphans = self._drop_orphans(scope, instead)
        self.steps.append(step)
        return step

    def _dependencies(self, step: RewriteStep) -> Sequence[RewriteStep]:
        supporting_tensors = () if self._is_duplicate(step) else step.match.kept
        used = (*step.removed, *supporting_tensors, *step.orphans)
        found = [
            *step.before,
            *[self.step_of[node] for node in used if node.encoded is not None and node in self.step_of],
        ]
        if self._redirectors:
            found += [earlier for node in used for earlier in self._redirectors.get(node, ())]
        return list(dict.fromkeys(found)) if found else ()

    def _is_duplicate(self, step: RewriteStep) -> bool:
        """Whether a step replaced a node of one rule by an equal node of another: proofs of either copy it."""
        match, fragment = step.match, step.fragment
        if step.added or len(step.removed) != 1 or len(match.kept) != 1:
            return False
        (gone,), (first,) = step.removed, match.kept
        read = tuple(match.tensor(ref.key) for ref in fragment.outputs if ref.kind == "capture")
        is_repeated = gone in self.step_of and first in self.step_of and read == first.outputs
        return is_repeated and can_copy(step.scope, read, self.inner)

    def require_writable(self, match: Match, fragment: Replacement) -> None:
        """Raise ConditionFailed if the result could not be written."""
        if not match.nodes:
            require_shareable(match, fragment)
            return
        scope, opset = match.scope, match.scope.opset or 0
        if any(item.like is not None for item in fragment.constants):
            require(opset >= 15, f"a constant of unknown dtype needs CastLike, which opset {opset} lacks")
        owners = {body.owner for body in scope.bodies} if len(match.outputs) > 1 else ()
        if owners:
            for node in insertion_point(match)[2]:
                require(node not in owners, f"{node.label!r} would have to move, but it contains a body")
        for name, ref in zip(match.outputs, fragment.outputs, strict=True):
            if ref.kind == "capture" and all(node.op in IDENTITY_OPS for node in match.nodes):
                why = match.index.pin_reason(scope, name)
                require(why is None, f"{name!r} must keep its name: {why}")

    def _constant(
        self, maker: NodeBuilder, item: ReplacementConstant, ref: TensorRef, names: dict[TensorRef, str]
    ) -> Iterator[Node]:
        """A constant becomes an initializer; in a function, which has none, a Constant node, with a cast if needed.

        Below IR 4 a body has none either: an initializer would have to be an input, and the inputs of a body are fixed.
        """
        scope = maker.scope
        needs_node = scope.function is not None or (scope.parent is not None and self.index.ir_version < 4)
        if not needs_node:
            names[ref] = self._initializer(maker, item)
        else:
            names[ref] = maker.tensor("Constant")
            yield maker.node(constant_node(item), {FIRST: names[ref]})
        if item.like is not None:
            cast = ReplacementNode("", "CastLike", (ref, item.like), outputs=(-1,), attributes=())
            made = maker.tensor(cast.op)
            tensors = {ref: names[ref], item.like: names[item.like], TensorRef("inner", -1): made}
            yield maker.node(cast, tensors)  # `like` may be inner 0
            names[ref] = made

    def _initializer(self, maker: NodeBuilder, item: ReplacementConstant) -> str:
        """The name of an initializer with this value; equal ones of one scope are shared."""
        scope = maker.scope
        key = (id(scope), *item.content)
        if self._shared.get(key) not in scope.initializers:
            name = self._shared[key] = self.names.fresh(maker.stem("constant"))
            tensor = item.proto(name)
            add_initializer(scope, tensor)
        return self._shared[key]

    def _remaining_outputs(self, maker: NodeBuilder, step: RewriteStep, names: dict[TensorRef, str]) -> Iterator[Node]:
        """Nodes for outputs that no node of the fragment produces: an input, a constant, or a duplicate."""
        match, fragment, scope = step.match, step.fragment, step.scope
        for name, ref in zip(match.outputs, fragment.outputs, strict=True):
            if names.get(ref) == name:
                continue
            if ref.kind == "constant":
                yield maker.node(constant_node(fragment.constants[ref.key]), {FIRST: name})
            elif name not in scope.protected and can_redirect(scope, name, names[ref]):
                self._redirect(step, name, names[ref])
            else:
                yield maker.node(
                    ReplacementNode("", "Identity", (ref,), outputs=(-1,), attributes=()),
                    {ref: names[ref], TensorRef("inner", -1): name},
                )

    def _is_constant_now(self, scope: Scope, name: str, ref: TensorRef, names: dict[TensorRef, str]) -> bool:
        """Whether an output of a match is now computed only from constants, so that cached results are wrong."""
        is_constant = self.index.constants.is_constant
        if ref.kind != "inner":
            return ref.kind == "constant" or is_constant(scope, names[ref])
        node = scope.producers[names[ref]]
        return node.op in CONSTANT_OPS and all(is_constant(scope, item) for item in node.inputs if item)

    def _redirect(self, step: RewriteStep, old: str, new: str) -> None:
        """Redirect every reader of one tensor to another.

        Later steps at the readers depend on this one, unless the file has both tensors: layers that share a tensor are
        not proved as one region, but rely on this step for the equality of the two.
        """
        step.renamed = {**(step.renamed or {}), old: new}
        readers = replace_uses(step.scope, old, new)
        if self._is_of_source(step.scope, new):
            mark_equal(step.scope, old, new)
            return
        if new in step.scope.protected and self.inner.isdisjoint((old, new)):  # the file has both
            mark_equal(step.scope, new, old)
            return
        step.before = [*step.before, *(self.step_of[reader] for reader in readers if reader in self.step_of)]
        for reader in readers:
            self._redirectors.setdefault(reader, []).append(step)

    def _is_of_source(self, scope: Scope, name: str) -> bool:
        """Whether a tensor is of the source, and its producer still exists."""
        home = scope.defining_scope(name)
        node = None if home is None else home.producers.get(name)
        return node is not None and node.original

    def _import_domains(self, scope: Scope, made: Sequence[Node]) -> None:
        for node in made:
            domain = node.op.rpartition("::")[0]
            if domain not in scope.versions:
                wanted = opset_to_import(domain, node.op.rpartition("::")[2]) if domain else Graph.DEFAULT_OPSET
                import_domain(scope, domain, wanted)

    def _drop_orphans(self, scope: Scope, names: Iterable[str]) -> list[Node]:
        """Remove what only the match used: initializers, and nodes of known ops, transitively."""
        dropped: list[Node] = []
        waiting = [name for name in names if name]
        while waiting:
            name = waiting.pop()
            home = scope.home_of_read(name)
            if home is None or home.is_needed(name):
                continue
            if name in home.initializers or name in home.sparse:
                if name not in home.inputs or (self.index.ir_version < 4 and home.parent is None):
                    drop_initializer(home, name)
                continue
            node = home.producers.get(name)
            if node is None or not knows_domain(node.op.rpartition("::")[0]) or home.needs(node):
                continue
            waiting += sweep(home, node)
            dropped.append(node)
        return dropped


def opset_to_import(domain: str, op: str) -> int:
    """The version at which a missing domain is imported: the newest of its op."""
    found = schema(domain, op, None) if knows_domain(domain) else None
    return found.since_version if found is not None else 1


def _tensor_names(
    match: Match, fragment: Replacement, maker: NodeBuilder, kept: Mapping[int, Node]
) -> dict[TensorRef, str]:
    """A name for every tensor of the fragment: the pattern's outputs, and outputs of kept nodes, keep theirs."""
    names = {EMPTY: ""}
    for name, ref in zip(match.outputs, fragment.outputs, strict=True):
        if ref.kind == "capture":
            names[ref] = match.tensor(ref.key)
        elif ref.kind == "inner":
            names.setdefault(ref, name)
    for number, old in kept.items():
        names = {**dict(zip(fragment.nodes[number].makes, old.outputs, strict=False)), **names}
    for node in fragment.nodes:
        for ref in node.reads:
            if ref.kind == "capture":
                names[ref] = match.tensor(ref.key)
        for place, ref in enumerate(node.makes):
            if ref not in names:
                names[ref] = maker.tensor(node.op, place)
    for item in fragment.constants:
        if item.like is not None and item.like.kind == "capture":
            names[item.like] = match.tensor(item.like.key)
    return names
