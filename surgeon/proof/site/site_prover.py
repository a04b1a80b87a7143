"""Proofs of all regions of a rewrite; equal regions are proved once, in models of any size."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from pathlib import Path

import onnx

from surgeon.ir.index import Index
from surgeon.ir.original_model import OriginalModel, TensorAddress
from surgeon.ir.scope import Scope
from surgeon.proof.cache.proof_class import ProofClass, proof_class_of
from surgeon.proof.cache.region_signature import Signature, Signatures
from surgeon.proof.check_result import Outcome
from surgeon.proof.proof_case import InnerShapesRequest, ProofCase, ProofOptions
from surgeon.proof.region.backward_slice import RegionSlice
from surgeon.proof.region.region import Region
from surgeon.proof.region.region_models import BodyLookup, build_proof_case
from surgeon.proof.region.value_equivalence import NodeEquivalence
from surgeon.proof.site.worker_proofs import needs_this_process, prove_cases, prove_in_process, run_inner_shapes
from surgeon.proof.site_proof import CannotSlice, SiteProof, weakest_proof
from surgeon.shapes.scope_inputs import ShapesByCall
from surgeon.shapes.shape_inference import ShapeInference

DEEPER = (0, 1, 3, 6)  # nodes to go back from each input: a region may be right only for its model's values there
MAX_READ_BYTES, MAX_READ_BYTES_IN_ALL = 1 << 26, 1 << 30  # bytes of weights to read, for one region and for all
MAX_CONTEXTS = 256  # of one region: calls of a function, and equal regions that fail, before the rest count as failed

_IN_CONTEXT = "equal for all values that the {} preceding nodes can produce, but not for arbitrary inputs"


class SiteProver:
    """The proofs of one rewrite.

    index: of the model, after the rewrite.  original: the source as ONNX Runtime gets it; it runs once if the rank
    of some tensors is unknown.  bodies: the references of operations.

    Proofs share caches of signatures, classes and slices, so it has more than twelve attributes.
    """

    def __init__(
        self, index: Index, original: Callable[[], Path | onnx.ModelProto], options: ProofOptions, bodies: BodyLookup
    ) -> None:
        self._origin = OriginalModel(index)
        self._shapes = ShapeInference(self._origin)
        self._signatures = Signatures(self._origin)
        self._original, self._options, self._bodies = original, options, bodies
        self._proofs: dict[Signature, SiteProof] = {}
        self._proved: dict[Signature, Region] = {}
        self._classes: dict[ProofClass, Signature] = {}  # proved in full
        self._baked: set[Signature] = set()  # proved with the weights that their new constants come from
        self._failed_in_context: Counter[Signature] = Counter()
        self._reduced: set[Signature] = set()  # whose failing cases were reduced
        self._shapes_by_call = ShapesByCall(index, self._shapes)
        self._rests: dict[Region, set[TensorAddress]] = {}  # of regions proved by comparing nodes
        self._cuts: dict[tuple[Region, ShapeInference], RegionSlice] = {}  # until their regions are proved
        self._read = 0
        self._rank_refusal = ""  # why one run of the model did not show a rank

    def prove(self, regions: Sequence[Region]) -> list[SiteProof]:
        """One proof for each region, in order."""
        found = {region: proof for region in regions if (proof := self._by_nodes(region)) is not None}
        rest = [region for region in regions if region not in found]
        found.update(zip(rest, self._by_runs(rest), strict=True))
        return [found[region] for region in regions]

    def _by_nodes(self, region: Region) -> SiteProof | None:
        """The proof of a region whose consumers now read equal outputs of equal nodes; None for any other."""
        scope, own = region.scope, {name for node in region.before for name in node.outputs}
        if not region.outputs or not all(node.original for node in region.after):
            return None
        nodes = NodeEquivalence(self._origin, own)
        if not all(nodes.are_equal((scope, old), (scope, new)) for old, new in region.outputs):
            return None
        self._rests[region] = nodes.rests
        return SiteProof(Outcome.PROVED, oracle="a comparison of nodes", reference="the nodes in the file")

    def _by_runs(self, regions: Sequence[Region]) -> list[SiteProof]:
        """One proof for each region, in order, by running both sides."""
        with_signatures = [(region, list(self._with_signatures(region))) for region in regions]
        if self._learn(with_signatures):
            with_signatures = [(region, list(self._with_signatures(region))) for region in regions]
        self._prove_anew(with_signatures)
        return [self._of(region, ways) for region, ways in with_signatures]

    def plain(self, scope: Scope, names: Sequence[str]) -> Hashable | None:
        """The types of the tensors that a site of the main graph reads; None if a proof may depend on more."""
        return None if self._origin.shares else self._signatures.of_data(scope, names, self._shapes)

    def rests(self, region: Region) -> set[TensorAddress]:
        """The tensors that a proof of this region assumed to be equal to others, which other sites prove."""
        if region in self._rests:
            return set(self._rests[region])
        found: set[TensorAddress] = set()
        for shapes in self._shapes_by_call.for_scope(region.scope):
            for depth in (0, max(DEEPER)):
                with suppress(CannotSlice):  # then this depth proved nothing
                    found |= RegionSlice(region, self._origin, shapes, depth=depth).assumed_equal
        return found

    def _with_signatures(self, region: Region) -> Iterator[tuple[Signature, ShapeInference]]:
        """The signature of a region for each way in which its scope is entered."""
        for shapes in self._shapes_by_call.for_scope(region.scope):
            yield self._signatures.of(region, shapes), shapes

    def _of(self, region: Region, ways: Sequence[tuple[Signature, ShapeInference]]) -> SiteProof:
        if not ways:
            return SiteProof(Outcome.UNPROVED, f"no node calls {region.scope.label}, which contains it")
        distinct = dict(ways)
        if len(distinct) > MAX_CONTEXTS:  # too many to prove
            why = f"{region.scope.label} is called in {len(distinct):,} different ways, more than {MAX_CONTEXTS}"
            return SiteProof(Outcome.UNPROVED, why)
        proofs: list[SiteProof] = []
        for signature, shapes in distinct.items():
            proof = self._proofs[signature]
            if proof.outcome is Outcome.FAILED:
                proof = proof.at(self._names(self._proved[signature], region))
            if proof.outcome is Outcome.FAILED and self._failed_in_context[signature] < MAX_CONTEXTS:
                anywhere, proof = proof, self._prove_in_context(region, shapes, proof, signature)
                if proof is anywhere and signature not in self._reduced:
                    proof = self._with_small_case(signature).at(self._names(self._proved[signature], region))
                self._failed_in_context[signature] += proof.outcome is Outcome.FAILED
            elif proof.outcome is Outcome.FAILED:
                proof = replace(
                    proof, reason=f"{proof.reason}; {MAX_CONTEXTS} equal sites fail after their own nodes too"
                )
            proofs.append(proof)
        return weakest_proof(proofs)

    def _with_small_case(self, signature: Signature) -> SiteProof:
        """Prove a failed region again, and reduce its failing case, which takes many runs."""
        self._reduced.add(signature)
        region = self._proved[signature]
        shapes = next(shapes for other, shapes in self._with_signatures(region) if other == signature)
        case = self._case(signature, region, shapes)
        again = replace(case, explains=True) if isinstance(case, ProofCase) else case
        self._keep({signature: (region, shapes)}, [again])
        return self._proofs[signature]

    def _names(self, one: Region, other: Region) -> dict[str, str]:
        """The tensors of a region that the original nodes read and hand on, by their names in an equal one."""
        pairs = [(old, new) for (old, _), (new, _) in zip(one.outputs, other.outputs, strict=True)]
        for node, same in zip(one.before, other.before, strict=True):
            pairs += zip(self._origin.inputs(node), self._origin.inputs(same), strict=True)
        return {old: new for old, new in pairs if old != new}

    def _prove_anew(self, with_signatures: Iterable[tuple[Region, Sequence[tuple[Signature, ShapeInference]]]]) -> None:
        """Prove one region of each new signature, several at once.

        Inputs take any value, and so do large weights, unless the replacement holds constants computed from them.  Of
        the regions of one proof class, the first is proved in full and the others on few inputs; the others are proved
        in full too if the first is not proved.
        """
        waiting: dict[Signature, tuple[Region, ShapeInference]] = {}
        for region, ways in with_signatures:
            distinct = dict(ways)
            for signature, shapes in distinct.items() if len(distinct) <= MAX_CONTEXTS else ():
                if signature not in self._proofs:
                    waiting.setdefault(signature, (region, shapes))
        # The first of a class costs most: let it be the smallest.
        waiting = dict(sorted(waiting.items(), key=lambda item: self._constant_elements(item[1][0])))
        followers: dict[Signature, Signature] = {}

        def cases() -> Iterator[ProofCase | SiteProof]:
            for signature, (region, shapes) in waiting.items():
                item = self._case(signature, region, shapes)
                if isinstance(item, ProofCase):
                    first = self._classes.setdefault(proof_class_of(item), signature)
                    if first != signature:
                        followers[signature] = first
                        item = replace(item, is_brief=True)
                yield item

        self._keep(waiting, cases())
        again = {
            signature: waiting[signature] for signature, first in followers.items() if self._is_open(signature, first)
        }
        self._keep(again, (self._case(signature, *place) for signature, place in again.items()))

    def _constant_elements(self, region: Region) -> int:
        """The elements of the constants that the original nodes of a region read, which its proof has to carry."""
        source, constants = self._origin.scope(region.scope), self._origin.constants
        names = dict.fromkeys(name for node in region.before for name in self._origin.inputs(node) if name)
        known = [name for name in names if constants.is_constant(source, name)]
        return sum(prod(shape) for name in known if (shape := constants.shape(source, name)) is not None)

    def _is_open(self, signature: Signature, first: Signature) -> bool:
        """Whether a brief proof decides nothing: it found no fault, and the first of its class is not proved."""
        outcome = self._proofs[signature].outcome
        is_sure = outcome is Outcome.PROVED and self._proofs[first].outcome is Outcome.PROVED
        return outcome is not Outcome.FAILED and not is_sure

    def _keep(
        self, places: Mapping[Signature, tuple[Region, ShapeInference]], cases: Iterable[ProofCase | SiteProof]
    ) -> None:
        for (signature, (region, _)), proof in zip(places.items(), self._outcomes(cases), strict=True):
            self._proofs[signature] = replace(proof, reason=self._explained(proof.reason))
            self._proved[signature] = region

    def _case(self, signature: Signature, region: Region, shapes: ShapeInference) -> ProofCase | SiteProof:
        """The proof case of a region, or its proof if nothing has to run."""
        try:
            cut = self._cuts.pop((region, shapes), None) or RegionSlice(region, self._origin, shapes)
            self._read_baked(cut, signature)
            return self._prepared(cut)
        except CannotSlice as error:
            return SiteProof(Outcome.UNPROVED, str(error))

    def _read_baked(self, cut: RegionSlice, signature: Signature) -> None:
        """Read the weights from which constants of the replacement may be computed, unless they are too large."""
        baked = cut.baked_weights
        if baked and (signature in self._baked or self._may_read(sum(weight.size_in_bytes for weight in baked))):
            cut.read_weights(baked)
            self._baked.add(signature)

    def _prepared(self, cut: RegionSlice) -> ProofCase | SiteProof:
        """The proof case of a slice, or its proof if nothing has to run."""
        if not cut.region.outputs:
            return SiteProof(Outcome.PROVED, "no node reads the removed outputs")
        try:
            return build_proof_case(cut, self._options, self._bodies)
        except CannotSlice as error:
            return SiteProof(Outcome.UNPROVED, str(error))

    def _outcomes(self, cases: Iterable[ProofCase | SiteProof]) -> list[SiteProof]:
        """The proofs, in order: by workers, except for operators that only this process can run."""
        known: dict[int, SiteProof] = {}
        away: list[int] = []

        def sent() -> Iterator[ProofCase]:
            for place, item in enumerate(cases):
                if isinstance(item, SiteProof):
                    known[place] = item
                elif needs_this_process(item):
                    known[place] = prove_in_process(item)
                else:
                    away.append(place)
                    yield item

        found = prove_cases(sent(), self._options)
        known.update(zip(away, found, strict=True))
        return [known[place] for place in sorted(known)]

    def _explained(self, reason: str) -> str:
        """A reason; for an unknown rank, with the reason why a run of the model did not show it."""
        return (
            f"{reason}, and {self._rank_refusal}"
            if self._rank_refusal and reason.startswith("the rank of ")
            else reason
        )

    def _prove_in_context(
        self, region: Region, shapes: ShapeInference, failed: SiteProof, signature: Signature
    ) -> SiteProof:
        """Prove a region that fails for some inputs on the inputs that its model can give it.

        Such a proof is valid only for this region: an equal one may have other producers.
        """
        made_up = RegionSlice(region, self._origin, shapes)
        self._read_baked(made_up, signature)
        is_whole = not made_up.weights
        if not self._may_read(made_up.weights):
            megabytes = f"{made_up.weights / 1e6:,.0f} MB"
            why = f"it fails with generated weights, and the real ones ({megabytes}) are too large for a proof"
            is_open = bool(made_up.baked_weights) or failed.depends_on_weights
            return replace(failed, outcome=Outcome.UNPROVED, reason=why) if is_open else failed
        for depth in DEEPER:
            try:
                cut = RegionSlice(region, self._origin, shapes, real_weights=True, depth=depth)
            except CannotSlice:
                break
            if depth or (cut.reads_weights and not is_whole):
                (proof,) = self._outcomes([self._prepared(cut)])
                if proof.outcome is Outcome.PROVED:
                    return proof if not depth else replace(proof, reason=_IN_CONTEXT.format(len(cut.prefix)))
            if not cut.grows:
                break
        return failed

    def _may_read(self, size: int) -> bool:
        """Whether weights of this size may be read; if so they count as read."""
        fits = size <= MAX_READ_BYTES and self._read + size <= MAX_READ_BYTES_IN_ALL
        self._read += size if fits else 0
        return fits

    def _learn(self, with_signatures: Sequence[tuple[Region, Sequence[tuple[Signature, ShapeInference]]]]) -> bool:
        """Run the model once to find unknown ranks; whether any was found."""
        unknown: dict[str, Scope] = {}
        firsts: dict[Signature, tuple[Region, ShapeInference]] = {}
        for region, ways in with_signatures:
            for signature, shapes in ways[:1]:
                firsts.setdefault(signature, (region, shapes))
        for region, shapes in firsts.values():
            try:
                cut = self._cuts[region, shapes] = RegionSlice(region, self._origin, shapes)
            except CannotSlice:
                continue  # reported when the region is proved
            main = self._origin.scope(self._origin.index.main)
            for boundary in cut.boundary_inputs.values():
                if (
                    boundary.shape is None
                    and self._origin.scope(boundary.scope).defining_scope(boundary.tensor) is main
                ):
                    unknown[boundary.tensor] = main
        if not unknown:
            return False
        found = run_inner_shapes(
            InnerShapesRequest(self._original(), self._origin.model.skeleton, list(unknown), self._options)
        )
        self._rank_refusal = _as_clause(found.refusal)
        tensors = {
            name: facts for name, facts in found.tensors.items() if name in unknown
        }  # a sequence comes as elements
        for name, (dtype, shape) in tensors.items():
            self._shapes.add_observed(unknown[name], name, dtype, shape)
        self._shapes_by_call.forget()
        self._cuts.clear()
        self._origin.of_data.clear()
        return bool(tensors)


def _as_clause(sentence: str) -> str:
    """A sentence as part of another; an acronym at its start keeps its capitals."""
    first = sentence[:1] if sentence[1:2].isupper() else sentence[:1].lower()
    return f"{first}{sentence[1:]}".rstrip(".")
