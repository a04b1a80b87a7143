"""The sites of a run as regions to prove, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import onnx

from surgeon.errors import ModelFileError
from surgeon.feeding.dims import require_dims
from surgeon.file.sameness import Contents
from surgeon.indexing.scope import Node, Scope
from surgeon.prove.inner_values import find_inner
from surgeon.prove.proof import SiteProof
from surgeon.prove.region import Region
from surgeon.prove.result import Outcome
from surgeon.prove.site_check import SiteCheck
from surgeon.prove.site_proof import ProofOptions
from surgeon.rewriting.options import CheckOptions
from surgeon.rewriting.references import reference_functions
from surgeon.rewriting.result import Site
from surgeon.rewriting.rule import Rule
from surgeon.rewriting.run import Run
from surgeon.rewriting.splice import Step


def prove_sites(run: Run, original: onnx.ModelProto | Path, options: CheckOptions) -> None:
    """Prove every site of a run on its own and put the proofs into the sites."""
    require_dims(run.model.skeleton.graph, options.dims)
    settings = ProofOptions(
        seed=options.seed,
        dims=options.dims,
        custom_ops=options.custom_ops,
        rtol=options.rtol,
        atol=options.atol,
        bodies=reference_functions(run.driver.log, run.rules),
    )
    traced = partial(
        find_inner,
        original,
        run.model.skeleton,
        seed=options.seed,
        dims=options.dims,
        custom_ops=options.custom_ops,
    )
    check = SiteCheck(run.index, settings, traced)
    handed_on = {(step.scope, old) for step in run.driver.log for old in step.renamed or ()}
    rules = {rule.name: rule for rule in run.rules}
    computed = [site for site in run.sites if not site.shared]
    proofs = check.prove([_region(site, handed_on, [rules[name] for name in site.rules]) for site in computed])
    for site, proof in zip(computed, proofs, strict=True):
        site.proof = proof
    _doubt_sizes(computed)
    _prove_shared(run, [site for site in run.sites if site.shared])


def _doubt_sizes(sites: Sequence[Site]) -> None:
    """Take no proof for one that may rest on sizes being equal of which a site that says so is not proved."""
    equal = [site for site in sites if any(_alike(step) for step in site.steps)]
    doubtful = next((site for site in equal if site.proof is None or site.proof.outcome is not Outcome.PROVED), None)
    if doubtful is not None:
        why = f"it may rest on equal sizes at {doubtful.root}, which are not proved to be"
        for site in sites:
            if site not in equal and site.proof is not None and site.proof.outcome is Outcome.PROVED:
                site.proof = replace(site.proof, outcome=Outcome.UNPROVED, reason=why)


def _alike(step: Step) -> bool:
    """Whether a step let nodes read equal sizes, and other sites took it from it that they are equal."""
    return any(step.scope.alike.get(old) == new for old, new in (step.renamed or {}).items())


def _prove_shared(run: Run, sites: Sequence[Site]) -> None:
    """Prove sites where readers of initializers were given others to read: all bytes of both, compared in the file."""
    contents = Contents(run.model)
    try:
        for site in sites:
            site.proof = _shared_proof(contents, site.steps[0].scope, site.shared)
    finally:
        contents.close()


def _shared_proof(contents: Contents, scope: Scope, shared: Mapping[str, str]) -> SiteProof:
    for old, new in shared.items():
        one, other = scope.stored(old), scope.stored(new)
        try:
            if one is None or other is None or not contents.same(one, other):
                return SiteProof(Outcome.FAILED, f"the bytes of {old!r} and {new!r} differ")
        except ModelFileError as error:
            return SiteProof(Outcome.UNPROVED, f"the bytes of {old!r} and {new!r} cannot be compared: {error}")
    return SiteProof(Outcome.PROVED, oracle="a comparison of all bytes", reference="the bytes in the file")


def _region(site: Site, handed_on: set[tuple[Scope, str]], rules: Sequence[Rule]) -> Region:
    """The net change of a site.  handed_on: tensors in whose place the run gave others, wherever it did."""
    steps = site.steps
    removed = [node for step in steps for node in step.removed if node.original]
    rests_on = dict.fromkeys(node for step in steps for node in step.match.kept if node.original)
    kept = [node for node in rests_on if node not in removed] if rests_on else []
    added = [node for step in steps for node in step.added if node.alive]
    made = {name for node in removed for name in node.outputs}
    scope = steps[-1].scope
    made_anew = {name for node in added for name in node.outputs}
    fresh = made_anew.union(*(node.outputs for node in kept))
    renamed = {old: new for step in steps for old, new in (step.renamed or {}).items()}
    outputs: list[tuple[str, str]] = []
    for name in dict.fromkeys(name for step in steps for name in step.outputs if name in made):
        now = name
        while now in renamed and now not in fresh:
            now = renamed[now]
        is_there = scope.home(now) is not None or (scope, now) in handed_on  # else nothing reads it any more
        if now in made_anew or (is_there and now != name and (now in fresh or now not in made)):
            outputs.append((name, now))
    read = {now for _, now in outputs}.union(*(node.inputs for node in added))
    slack = sum(rule.approximate for rule in rules)
    apart = frozenset(kind for rule in rules for kind in rule.differs)
    return Region(scope, (*removed, *kept), (*_needed(kept, read), *added), tuple(outputs), slack, apart)


def _needed(kept: Sequence[Node], read: set[str]) -> list[Node]:
    """Of the nodes that a site rests on, those that what came and what was handed on still rest on."""
    found: list[Node] = []
    for node in sorted(kept, key=lambda item: -item.origin):
        if not read.isdisjoint(node.outputs):
            found.append(node)
            read = read.union(node.proto.input)
    return found[::-1]
