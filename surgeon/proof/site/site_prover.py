"""Every region of a rewrite proved on its own; equal regions once, whatever the size of the model."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
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
from surgeon.shapes.scope_inputs import Entrances
from surgeon.shapes.shape_inference import ShapeInference

DEEPER = (0, 1, 3, 6)  # nodes to go back from each input: a region may hold only for what its model computes there
MOST_READ, MOST_READ_IN_ALL = 1 << 26, 1 << 30  # bytes of weights, for one region and for all that fail without
MOST_IN_VAIN = 128  # equal regions that fail in their context too, until the rest are taken to fail
MOST_CONTEXTS = 256  # ways in which one local function is called

_IN_CONTEXT = "for what the {} nodes before it make: it fails for other inputs"


class SiteProver:
    """The proofs of one rewrite.

    index: of the model, after the rewrite.  original: the source as ONNX Runtime gets it; it is run once where nothing
    else tells the rank of some tensors.  bodies: the references of operations.
    """

    def __init__(
        self, index: Index, original: Path | onnx.ModelProto, options: ProofOptions, bodies: BodyLookup
    ) -> None:
        self._origin = OriginalModel(index)
        self._shapes = ShapeInference(self._origin)
        self._signatures = Signatures(self._origin)
        self._original, self._options, self._bodies = original, options, bodies
        self._proofs: dict[Signature, SiteProof] = {}
        self._proved: dict[Signature, Region] = {}
        self._forms: dict[ProofClass, Signature] = {}  # which is proved in full
        self._whole: set[Signature] = set()  # proved with the weights of the model
        self._in_vain: Counter[Signature] = Counter()
        self._entrances = Entrances(index, self._shapes)
        self._rests: dict[Region, set[TensorAddress]] = {}  # by a comparison of nodes
        self._cuts: dict[
            tuple[Region, ShapeInference], RegionSlice
        ] = {}  # made to see what is unknown, until their regions are proved
        self._read = 0
        self._untold = ""  # why one run of the model did not tell a rank

    def prove(self, regions: Sequence[Region]) -> list[SiteProof]:
        """One proof for each region, in order."""
        found = {region: proof for region in regions if (proof := self._by_nodes(region)) is not None}
        rest = [region for region in regions if region not in found]
        found.update(zip(rest, self._by_runs(rest), strict=True))
        return [found[region] for region in regions]

    def _by_nodes(self, region: Region) -> SiteProof | None:
        """The proof of a region whose readers were given what equal nodes make of equal tensors; None for any other."""
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
        signed = [(region, list(self._signed(region))) for region in regions]
        if self._learn(signed):
            signed = [(region, list(self._signed(region))) for region in regions]
        self._prove_anew(signed)
        return [self._of(region, ways) for region, ways in signed]

    def plain(self, scope: Scope, names: Sequence[str]) -> Hashable | None:
        """What tells tensors that a site of the main graph reads; None where a proof may rest on more of them."""
        return None if self._origin.shares else self._signatures.of_data(scope, names, self._shapes)

    def rests(self, region: Region) -> set[TensorAddress]:
        """The tensors that a proof of this region may have taken for equal to others, as other sites prove."""
        if region in self._rests:
            return set(self._rests[region])
        found: set[TensorAddress] = set()
        for shapes in self._entrances.into(region.scope):
            for depth in (0, max(DEEPER)):
                with suppress(CannotSlice):  # then nothing was proved in that way
                    found |= RegionSlice(region, self._origin, shapes, depth=depth).assumed_equal
        return found

    def _signed(self, region: Region) -> Iterator[tuple[Signature, ShapeInference]]:
        """The signature of a region for each way in which its scope is reached."""
        for shapes in self._entrances.into(region.scope):
            yield self._signatures.of(region, shapes), shapes

    def _of(self, region: Region, ways: Sequence[tuple[Signature, ShapeInference]]) -> SiteProof:
        if not ways:
            return SiteProof(Outcome.UNPROVED, f"nothing calls {region.scope.label}, in which it lies")
        distinct = dict(ways)
        if len(distinct) > MOST_CONTEXTS:  # these are not proved
            why = f"{region.scope.label} is called in {len(distinct):,} ways, which is more than {MOST_CONTEXTS}"
            return SiteProof(Outcome.UNPROVED, why)
        proofs: list[SiteProof] = []
        for signature, shapes in distinct.items():
            proof = self._proofs[signature]
            if proof.outcome is Outcome.FAILED:
                pairs = zip(self._proved[signature].outputs, region.outputs, strict=True)
                proof = proof.at({old: new for (old, _), (new, _) in pairs if old != new})
            if proof.outcome is Outcome.FAILED and self._in_vain[signature] < MOST_IN_VAIN:
                proof = self._prove_in_context(region, shapes, proof, is_whole=signature in self._whole)
                self._in_vain[signature] += proof.outcome is Outcome.FAILED
            elif proof.outcome is Outcome.FAILED:
                proof = replace(
                    proof, reason=f"{proof.reason}; {MOST_IN_VAIN} like it failed behind their own nodes too"
                )
            proofs.append(proof)
        return weakest_proof(proofs)

    def _prove_anew(self, signed: Iterable[tuple[Region, Sequence[tuple[Signature, ShapeInference]]]]) -> None:
        """Prove one region of each signature that is not proved yet, several at once.

        Inputs take any value, and weights that are large are made up too, unless the replacement holds what was
        computed from them.  Of regions of one form, that differ in widths and weights alone, the first is proved in
        full and the others on few inputs, unless it is not proved.
        """
        waiting: dict[Signature, tuple[Region, ShapeInference]] = {}
        for region, ways in signed:
            distinct = dict(ways)
            for signature, shapes in distinct.items() if len(distinct) <= MOST_CONTEXTS else ():
                if signature not in self._proofs:
                    waiting.setdefault(signature, (region, shapes))
        waiting = dict(sorted(waiting.items(), key=lambda item: self._carried(item[1][0])))  # a first costs most
        led: dict[Signature, Signature] = {}

        def experiments() -> Iterator[ProofCase | SiteProof]:
            for signature, (region, shapes) in waiting.items():
                item = self._experiment(signature, region, shapes)
                if isinstance(item, ProofCase):
                    first = self._forms.setdefault(proof_class_of(item), signature)
                    if first != signature:
                        led[signature] = first
                        item = replace(item, is_brief=True)
                yield item

        self._keep(waiting, experiments())
        again = {signature: waiting[signature] for signature, first in led.items() if self._is_open(signature, first)}
        self._keep(again, (self._experiment(signature, *place) for signature, place in again.items()))

    def _carried(self, region: Region) -> int:
        """The elements of the constants that the source's nodes of a region read, which its proof has to carry."""
        source, constants = self._origin.scope(region.scope), self._origin.constants
        names = dict.fromkeys(name for node in region.before for name in self._origin.inputs(node) if name)
        known = [name for name in names if constants.is_constant(source, name)]
        return sum(prod(shape) for name in known if (shape := constants.shape(source, name)) is not None)

    def _is_open(self, signature: Signature, first: Signature) -> bool:
        """Whether few inputs decide nothing: they showed no fault, and the first of the form is not proved."""
        outcome = self._proofs[signature].outcome
        is_sure = outcome is Outcome.PROVED and self._proofs[first].outcome is Outcome.PROVED
        return outcome is not Outcome.FAILED and not is_sure

    def _keep(
        self, places: Mapping[Signature, tuple[Region, ShapeInference]], experiments: Iterable[ProofCase | SiteProof]
    ) -> None:
        """Keep the proofs of these regions."""
        for (signature, (region, _)), proof in zip(places.items(), self._outcomes(experiments), strict=True):
            self._proofs[signature] = replace(proof, reason=self._explained(proof.reason))
            self._proved[signature] = region

    def _experiment(self, signature: Signature, region: Region, shapes: ShapeInference) -> ProofCase | SiteProof:
        """What proves a region, or the proof where nothing has to be run for it."""
        try:
            cut = self._cuts.pop((region, shapes), None) or RegionSlice(region, self._origin, shapes)
            if cut.has_baked_weights and cut.weights and (signature in self._whole or self._may_read(cut.weights)):
                cut.read_weights()
                self._whole.add(signature)
            return self._prepared(cut)
        except CannotSlice as error:
            return SiteProof(Outcome.UNPROVED, str(error))

    def _prepared(self, cut: RegionSlice) -> ProofCase | SiteProof:
        """The same of a region as it is cut out."""
        if not cut.region.outputs:
            return SiteProof(Outcome.PROVED, "nothing reads what was taken out")
        try:
            return build_proof_case(cut, self._options, self._bodies)
        except CannotSlice as error:
            return SiteProof(Outcome.UNPROVED, str(error))

    def _outcomes(self, experiments: Iterable[ProofCase | SiteProof]) -> list[SiteProof]:
        """The proofs, in order: by children, but where an operator is computed by what this process alone has."""
        known: dict[int, SiteProof] = {}
        away: list[int] = []

        def sent() -> Iterator[ProofCase]:
            for place, item in enumerate(experiments):
                if isinstance(item, SiteProof):
                    known[place] = item
                elif needs_this_process(item):
                    known[place] = prove_in_process(item)
                else:
                    away.append(place)
                    yield item

        found = prove_cases(sent(), self._options.jobs)
        known.update(zip(away, found, strict=True))
        return [known[place] for place in sorted(known)]

    def _explained(self, reason: str) -> str:
        """A reason, and where it is an unknown rank why no run of the model told it."""
        return f"{reason}, and {self._untold}" if self._untold and reason.startswith("the rank of ") else reason

    def _prove_in_context(
        self, region: Region, shapes: ShapeInference, failed: SiteProof, *, is_whole: bool
    ) -> SiteProof:
        """Prove a region that fails for some inputs on those that its model can give it.

        Such a proof is the region's own: another that looks the same may stand behind other nodes.  is_whole: it failed
        with the weights of the model.
        """
        made_up = RegionSlice(region, self._origin, shapes)
        if not is_whole and not self._may_read(made_up.weights):
            megabytes = f"{made_up.weights / 1e6:,.0f} MB"
            why = f"it fails with weights made up, and its own, which take {megabytes}, are more than a proof reads"
            is_open = made_up.has_baked_weights or failed.depends_on_weights
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
        """Whether weights of so many bytes are worth reading; if so they are counted as read."""
        fits = size <= MOST_READ and self._read + size <= MOST_READ_IN_ALL
        self._read += size if fits else 0
        return fits

    def _learn(self, signed: Sequence[tuple[Region, Sequence[tuple[Signature, ShapeInference]]]]) -> bool:
        """Find by one run of the model the ranks that nothing else tells; returns whether any was found."""
        unknown: dict[str, Scope] = {}
        firsts: dict[Signature, tuple[Region, ShapeInference]] = {}
        for region, ways in signed:
            for signature, shapes in ways[:1]:
                firsts.setdefault(signature, (region, shapes))
        for region, shapes in firsts.values():
            try:
                cut = self._cuts[region, shapes] = RegionSlice(region, self._origin, shapes)
            except CannotSlice:
                continue  # said when the region is proved
            main = self._origin.scope(self._origin.index.main)
            for leaf in cut.boundary_inputs.values():
                if leaf.shape is None and self._origin.scope(leaf.scope).defining_scope(leaf.tensor) is main:
                    unknown[leaf.tensor] = main
        if not unknown:
            return False
        found = run_inner_shapes(
            InnerShapesRequest(self._original, self._origin.model.skeleton, list(unknown), self._options)
        )
        self._untold = _as_clause(found.refusal)
        tensors = {name: facts for name, facts in found.tensors.items() if name in unknown}  # a list comes as elements
        for name, (dtype, shape) in tensors.items():
            self._shapes.add_observed(unknown[name], name, dtype, shape)
        self._entrances.forget()
        self._cuts.clear()
        self._origin.of_data.clear()
        return bool(tensors)


def _as_clause(sentence: str) -> str:
    """A sentence as it stands inside another; a name in capitals keeps them."""
    first = sentence[:1] if sentence[1:2].isupper() else sentence[:1].lower()
    return f"{first}{sentence[1:]}".rstrip(".")
