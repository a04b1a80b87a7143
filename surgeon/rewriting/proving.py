"""The sites of a run as regions to prove, and what came of it."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import onnx

from surgeon.feeding.dims import require_dims
from surgeon.indexing.scope import Node, Scope
from surgeon.prove.inner_values import find_inner
from surgeon.prove.region import Region
from surgeon.prove.site_check import SiteCheck
from surgeon.prove.site_proof import ProofOptions
from surgeon.rewriting.options import CheckOptions
from surgeon.rewriting.references import reference_functions
from surgeon.rewriting.result import Site
from surgeon.rewriting.rule import Rule
from surgeon.rewriting.run import Run


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
    proofs = check.prove([_region(site, handed_on, [rules[name] for name in site.rules]) for site in run.sites])
    for site, proof in zip(run.sites, proofs, strict=True):
        site.proof = proof


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
