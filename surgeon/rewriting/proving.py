"""The sites of a run as regions to prove, and what came of it."""

from functools import partial
from pathlib import Path

import onnx

from surgeon.feeding.dims import require_dims
from surgeon.prove.inner_values import find_inner
from surgeon.prove.region import Region
from surgeon.prove.site_check import SiteCheck
from surgeon.prove.site_proof import ProofOptions
from surgeon.rewriting.options import CheckOptions
from surgeon.rewriting.references import reference_functions
from surgeon.rewriting.result import Site
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
    slack = {rule.name: rule.approximate for rule in run.rules}
    proofs = check.prove([_region(run, site, sum(slack[name] for name in site.rules)) for site in run.sites])
    for site, proof in zip(run.sites, proofs, strict=True):
        site.proof = proof


def _region(run: Run, site: Site, slack: float) -> Region:
    """The net change of a site."""
    steps = site.steps
    before = tuple(node for step in steps for node in step.removed if node.original)
    after = tuple(node for step in steps for node in step.added if node.alive)
    made = {name for step in steps for node in step.removed if node.original for name in node.outputs}
    scope = steps[-1].scope
    fresh = {name for node in after for name in node.outputs}
    renamed = {old: new for step in steps for old, new in (step.renamed or {}).items()}
    outputs: list[tuple[str, str]] = []
    for name in dict.fromkeys(name for step in steps for name in step.outputs if name in made):
        now = name
        while now in renamed and now not in fresh:
            now = renamed[now]
        if now in fresh or (now != name and scope.home(now) is not None):  # else nothing reads it any more
            outputs.append((name, now))
    return Region(scope, before, after, tuple(outputs), slack)
