"""Every region of a rewrite proved on its own; equal regions once, whatever the size of the model."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import onnx

from surgeon.indexing.index import Index
from surgeon.indexing.origin import Origin, Place
from surgeon.indexing.scope import Scope, qualified
from surgeon.prove.cut import Cut
from surgeon.prove.experiment import ProofOptions
from surgeon.prove.inner_values import InnerValues
from surgeon.prove.preparing import Bodies, prepared
from surgeon.prove.proof import CannotCut, SiteProof, least
from surgeon.prove.region import Region
from surgeon.prove.result import Outcome
from surgeon.prove.signature import Signature, Signatures
from surgeon.prove.site_proof import run_experiment
from surgeon.shaping.shapes import Shapes

DEEPER = (0, 1, 3, 6)  # nodes to go back from each input: a region may hold only for what its model computes there
MOST_READ, MOST_READ_IN_ALL = 1 << 26, 1 << 30  # bytes of weights, for one region and for all that fail without
MOST_IN_VAIN = 128  # equal regions that fail in their context too, until the rest are taken to fail
MOST_CONTEXTS = 256  # ways in which one local function is called

_IN_CONTEXT = "for what the {} nodes before it make: it fails for other inputs"

Traced = Callable[[Sequence[str]], InnerValues]


class SiteCheck:
    """The proofs of one rewrite.

    index: of the model, after the rewrite.  bodies: the references of operations.  traced: values of tensors of the
    main graph from one run of the source, asked for where nothing else tells their rank.
    """

    def __init__(self, index: Index, options: ProofOptions, bodies: Bodies, traced: Traced) -> None:
        self._origin = Origin(index)
        self._shapes = Shapes(self._origin)
        self._signatures = Signatures(self._origin)
        self._options, self._bodies, self._traced = options, bodies, traced
        self._proofs: dict[Signature, SiteProof] = {}
        self._proved: dict[Signature, Region] = {}
        self._in_vain: Counter[Signature] = Counter()
        self._calls: dict[int, list[Shapes]] = {}
        self._read = 0
        self._untold = ""  # why one run of the model did not tell a rank

    def prove(self, regions: Sequence[Region]) -> list[SiteProof]:
        """One proof for each region, in order."""
        signed = [(region, list(self._signed(region))) for region in regions]
        if self._learn(signed):
            signed = [(region, list(self._signed(region))) for region in regions]
        return [self._of(region, ways) for region, ways in signed]

    def rests(self, region: Region) -> set[Place]:
        """The tensors that a proof of this region may have taken for equal to others, as other sites prove."""
        found: set[Place] = set()
        for shapes in self._contexts(region.scope):
            for depth in (0, max(DEEPER)):
                with suppress(CannotCut):  # then nothing was proved in that way
                    found |= Cut(region, self._origin, shapes, depth=depth).rests
        return found

    def _signed(self, region: Region) -> Iterator[tuple[Signature, Shapes]]:
        """The signature of a region for each way in which its scope is reached."""
        for shapes in self._contexts(region.scope):
            yield self._signatures.of(region, shapes), shapes

    def _contexts(self, scope: Scope) -> list[Shapes]:
        """The shapes seen from a scope: one for the main graph, one per way of calling it for a local function."""
        function = scope.function
        if function is None:
            return [self._shapes]
        if id(function) not in self._calls:
            self._calls[id(function)] = []  # a function that calls itself, which ONNX forbids, ends here
            ways = {around.call: around for around in self._calling(function)}
            self._calls[id(function)] = list(ways.values())
        return self._calls[id(function)]

    def _calling(self, function: Scope) -> Iterator[Shapes]:
        """The shapes inside a local function, for each of its calls in the source."""
        proto = function.proto
        if not isinstance(proto, onnx.FunctionProto):
            return
        op = qualified(proto.domain, proto.name)
        for outer in self._origin.index.scopes:
            for node in outer.by_op.get(op, ()):
                if node.original and node.proto.overload == proto.overload:
                    insides = (around.inside(node) for around in self._contexts(outer))
                    yield from (inside for inside in insides if inside is not None)

    def _of(self, region: Region, ways: Sequence[tuple[Signature, Shapes]]) -> SiteProof:
        if not ways:
            return SiteProof(Outcome.UNPROVED, f"nothing calls {region.scope.label}, in which it lies")
        distinct = dict(ways)
        if len(distinct) > MOST_CONTEXTS:
            why = f"{region.scope.label} is called in {len(distinct):,} ways, which is more than {MOST_CONTEXTS}"
            return SiteProof(Outcome.UNPROVED, why)
        proofs: list[SiteProof] = []
        for signature, shapes in distinct.items():
            if signature not in self._proofs:
                self._proofs[signature] = self._prove(region, shapes)
                self._proved[signature] = region
            proof = self._proofs[signature]
            if proof.outcome is Outcome.FAILED:
                pairs = zip(self._proved[signature].outputs, region.outputs, strict=True)
                proof = proof.at({old: new for (old, _), (new, _) in pairs if old != new})
            if proof.outcome is Outcome.FAILED and self._in_vain[signature] < MOST_IN_VAIN:
                proof = self._prove_in_context(region, shapes, proof)
                self._in_vain[signature] += proof.outcome is Outcome.FAILED
            elif proof.outcome is Outcome.FAILED:
                proof = replace(
                    proof, reason=f"{proof.reason}; {MOST_IN_VAIN} like it failed behind their own nodes too"
                )
            proofs.append(proof)
        return least(proofs)

    def _prove(self, region: Region, shapes: Shapes) -> SiteProof:
        """Prove a region for inputs of any value; weights that are large are made up too."""
        try:
            proof = self._run(Cut(region, self._origin, shapes))
            return replace(proof, reason=self._explained(proof.reason))
        except CannotCut as error:
            return SiteProof(Outcome.UNPROVED, self._explained(str(error)))

    def _run(self, cut: Cut) -> SiteProof:
        """Prove a region as it is cut out."""
        if not cut.region.outputs:
            return SiteProof(Outcome.PROVED, "nothing reads what was taken out")
        try:
            return run_experiment(prepared(cut, self._options, self._bodies))
        except CannotCut as error:
            return SiteProof(Outcome.UNPROVED, str(error))

    def _explained(self, reason: str) -> str:
        """A reason, and where it is an unknown rank why no run of the model told it."""
        return f"{reason}, and {self._untold}" if self._untold and reason.startswith("the rank of ") else reason

    def _prove_in_context(self, region: Region, shapes: Shapes, failed: SiteProof) -> SiteProof:
        """Prove a region that fails for some inputs on those that its model can give it.

        Such a proof is the region's own: another that looks the same may stand behind other nodes.
        """
        made_up = Cut(region, self._origin, shapes)
        if not self._may_read(made_up.weights):
            megabytes = f"{made_up.weights / 1e6:,.0f} MB"
            why = f"it fails with weights made up, and its own, which take {megabytes}, are more than a proof reads"
            is_open = made_up.bakes or failed.is_of_weights
            return replace(failed, outcome=Outcome.UNPROVED, reason=why) if is_open else failed
        for depth in DEEPER:
            try:
                cut = Cut(region, self._origin, shapes, real_weights=True, depth=depth)
            except CannotCut:
                break
            if depth or cut.reads_weights:
                proof = self._run(cut)
                if proof.outcome is Outcome.PROVED:
                    return proof if not depth else replace(proof, reason=_IN_CONTEXT.format(len(cut.prefix)))
            if not cut.grows:
                break
        return failed

    def _may_read(self, size: int) -> bool:
        """Whether weights of so many bytes are worth reading; if so they are counted as read."""
        fits = size <= MOST_READ and self._read + size <= MOST_READ_IN_ALL
        self._read += size if fits else 0
        return fits

    def _learn(self, signed: Sequence[tuple[Region, Sequence[tuple[Signature, Shapes]]]]) -> bool:
        """Find by one run of the model the ranks that nothing else tells; returns whether any was found."""
        unknown: dict[str, Scope] = {}
        for region, ways in {ways[0][0]: (region, ways) for region, ways in signed if ways}.values():
            try:
                cut = Cut(region, self._origin, ways[0][1])
            except CannotCut:
                continue  # said when the region is proved
            main = self._origin.scope(self._origin.index.main)
            for leaf in cut.leaves.values():
                if leaf.shape is None and self._origin.scope(leaf.scope).home(leaf.tensor) is main:
                    unknown[leaf.tensor] = main
        if not unknown:
            return False
        traced = self._traced(list(unknown))
        found, self._untold = traced.values, traced.refusal.rstrip(".")
        tensors = {name: array for name, array in found.items() if name in unknown}  # a list comes as its elements
        for name, array in tensors.items():
            self._shapes.learn(unknown[name], name, _dtype_of(array), tuple(array.shape))
        self._calls.clear()
        return bool(tensors)


def _dtype_of(array: np.ndarray) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
