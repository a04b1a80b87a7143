"""Turns the sites of a run into regions, proves them, and attaches the proofs.

A model of 20,000 sites has few classes of equal sites.  The matcher already knows equal sites by their template, so
equal regions need not be compared to share one proof.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from onnx import FunctionProto, helper

from surgeon.errors import ConditionFailed, ModelFileError, RewriteError, RuleError, SurgeonError
from surgeon.file.save import OutputModel
from surgeon.file.tensors.content_equality import TensorContents
from surgeon.ir.divisors import divides
from surgeon.ir.original_model import TensorAddress
from surgeon.ir.scope import Node, Scope, split_op
from surgeon.pipeline.reports.site import Site
from surgeon.pipeline.rewriting.rule_run import RuleRun
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.check_result import Outcome
from surgeon.proof.proof_case import ProofOptions
from surgeon.proof.region.region import Region
from surgeon.proof.site.site_prover import SiteProver
from surgeon.proof.site_proof import SiteProof
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.pattern import NodeOutput, bound_names, walk_values
from surgeon.rules.pattern_containment import emitted_values
from surgeon.rules.replacing.recreated_nodes import producing_nodes
from surgeon.rules.replacing.replacement import TensorRef
from surgeon.rules.replacing.replacement_builder import build_replacement
from surgeon.rules.replacing.splicer import RewriteStep, opset_to_import
from surgeon.rules.rule import Rule, describe_rule_error
from surgeon.runtime.function_inlining import PRIVATE_DOMAIN
from surgeon.runtime.implementations.implementation import export_registry
from surgeon.shapes.constraints.input_dims import require_dims
from surgeon.target_registry import TargetRuntime

DataKey = Callable[[Scope, Sequence[str]], Hashable | None]
"""Key of the data that a site reads; None if a proof may depend on more than that (`SiteProver.plain`)."""


def reference_functions(steps: Sequence[RewriteStep], rules: Iterable[Rule]) -> Callable[[Node], FunctionProto | None]:
    """A function from nodes to reference bodies; None for a node that is not the only one that a rule wrote or removed.

    The body is the rule's first pattern, built for the match, as a function of the node's inputs.
    """
    by_name = {rule.name: rule for rule in rules}
    wrote = {node: step for step in steps for node in step.added}
    taken: dict[Node, RewriteStep] = {step.removed[0]: step for step in steps if len(step.removed) == 1}

    def body_of(node: Node) -> FunctionProto | None:
        step = wrote.get(node) or taken.get(node)
        rule = by_name.get(step.rule) if step is not None else None
        if step is None or rule is None or not rule.patterns:
            return None
        names = _captures_written(node, step) if node in wrote else _captures_read(node, step)
        return None if names is None else _body(node, names, step, rule)

    return body_of


def _captures_written(node: Node, step: RewriteStep) -> list[TensorRef | None] | None:
    """The captures that a new node reads, by input; None unless it is the only node of its step."""
    nodes = step.fragment.nodes
    if len(nodes) != 1 or nodes[0].qualified != node.op:
        return None
    return [ref if ref.kind == "capture" else None for ref in nodes[0].inputs]


def _captures_read(node: Node, step: RewriteStep) -> list[TensorRef | None]:
    """The captures that a removed node read, by input."""
    keys = {held: TensorRef("capture", (name, 0)) for name, held in step.match.bound.items() if isinstance(held, str)}
    return [keys.get(name) for name in node.inputs]


def _lacks_captures(rule: Rule, match: Match) -> bool:
    """Whether the reference is a pattern that reads captures which the match does not bind.

    A record of captures has None for these.  The reference reads what its first forms read, and the further attributes
    of any form, where `**None` would fail.
    """
    traced = rule.compiled(rule.reference)[:1] if rule.reference in rule.patterns else ()
    for pattern in (compiled.pattern for compiled in traced):
        fields = pattern.captures_class.fields() if pattern.captures_class is not None else ()
        absent = {field.name for field in fields if field.default is None} - match.bound.keys()
        others = (value.operation.others for value in walk_values(pattern.outputs) if isinstance(value, NodeOutput))
        read = {*bound_names(emitted_values(pattern)), *(item.name for item in others if item is not None)}
        return not absent.isdisjoint(read)
    return False


def _body(node: Node, captures: list[TensorRef | None], step: RewriteStep, rule: Rule) -> FunctionProto | None:
    if _lacks_captures(rule, step.match):
        return None
    try:
        reference = build_replacement(rule.reference, step.match)
    except (ConditionFailed, RuleError):
        return None  # the pattern that matched binds other captures than the reference needs
    except SurgeonError:
        raise
    except Exception as error:
        output = step.match.outputs[0]
        raise RewriteError(
            describe_rule_error(rule, error, f"in its reference, at the node that produces {output!r}")
        ) from error
    if any(item.qualified == node.op for item in reference.nodes):
        return None  # the reference is the op itself
    inputs = [f"in{place}" for place in range(len(captures))]
    given = {ref: name for ref, name in zip(captures, inputs, strict=True) if ref is not None}
    needed = {ref for item in reference.nodes for ref in item.inputs} | set(reference.outputs)
    if any(ref.kind == "capture" and ref not in given for ref in needed):
        return None
    nodes, outputs = reference.as_body(given)
    versions = step.scope.versions
    domains = {item.domain for item in nodes} | {""}
    imports = [helper.make_opsetid(name, versions.get(name) or opset_to_import(name, "")) for name in sorted(domains)]
    name = split_op(node.op)[1]
    return helper.make_function(PRIVATE_DOMAIN, name, inputs, outputs, nodes=nodes, opset_imports=imports)


def proof_class_key(site: Site, data_key: DataKey) -> Hashable:
    """A key that sites of equal regions share; the site itself if only its region can show that.

    Sites share a key if each is one step, from the same replacement, for matches of one template.
    """
    (step, *others), match = site.steps, site.steps[0].match
    if others or match.template is None or not _is_plain(match) or step.renamed or step.orphans:
        return site
    names = tuple([held for held in match.bound.values() if isinstance(held, str)])
    data = data_key(match.scope, names) if len(set(names)) == len(names) == len(match.bound) else None
    if data is None:
        return site
    made, has_signs = tuple([node.op for node in step.added]), divides(match.scope, match.outputs[0])
    return (step.rule, id(match.template), id(step.fragment), id(match.scope.versions), made, has_signs, data)


def _is_plain(match: Match) -> bool:
    """Whether a match is in the main graph or a body of it, wholly replaced, with one output that is still in use."""
    return match.scope.function is None and not match.scope.redirected and not match.kept and len(match.outputs) == 1


def prove_sites(
    run: RuleRun, original: Callable[[], OutputModel], options: CheckOptions, runtime: TargetRuntime | None = None
) -> None:
    """Prove each unproved site of a run separately, and attach the proofs.

    A site gets no proof if the rollback of a failed site would invalidate it.  original: returns the model before the
    rules, by its full path if it is a file.  runtime: runs replacements for the target; None for ONNX Runtime.
    """
    require_dims(run.model.skeleton.graph, options.dims)
    settings = ProofOptions(
        seed=options.seed,
        dims=options.dims,
        custom_ops=[
            Path(path).absolute() for path in options.custom_ops
        ],  # a worker may have another working directory
        implementations=export_registry(options.custom_ops),
        rtol=options.rtol,
        atol=options.atol,
        proof_time=options.proof_time,
        jobs=options.jobs or 0,
        cache=options.cache,
        coverage=options.coverage,
        runtime=runtime,
    )
    check = SiteProver(run.index, original, settings, reference_functions(run.driver.log, run.settings.rules))
    handed_on = {(step.scope, old) for step in run.driver.log for old in step.renamed or ()}
    rules = {rule.name: rule for rule in run.settings.rules}
    inner = run.driver.splicer.inner
    kin: dict[Hashable, list[Site]] = {}
    shared: list[Site] = []
    for site in run.sites:
        if site.proof is None and site.shared:
            shared.append(site)
        elif site.proof is None:
            kin.setdefault(proof_class_key(site, check.plain), []).append(site)
    regions: dict[Site, Region] = {}

    def prove(sites: Iterable[Site]) -> None:
        found = {site: _region(site, handed_on, inner, [rules[name] for name in site.rules]) for site in sites}
        for site, proof in zip(found, check.prove(list(found.values())), strict=True):
            site.proof = proof
        regions.update(found)

    prove(first for first, *_ in kin.values())
    for first, *others in kin.values():
        for site in others:
            site.proof = first.proof
    again = [site for first, *others in kin.values() if _is_failed(first) for site in others]
    if again:  # each may hold at its own place
        prove(again)
    _doubt(check, run.sites, regions)
    _prove_shared(run, shared)


def _doubt(check: SiteProver, sites: Sequence[Site], regions: Mapping[Site, Region]) -> None:
    """Withdraw proofs that assume equal tensors if the site that claims the equality is not proved.

    If that site fails, it is rolled back, and the proof is repeated without it.  regions: of the sites proved just now.
    """
    doubtful = {place: site for site in sites if not _is_proved(site) for place in _equal(site)}
    if not doubtful:
        return
    rests = {site: check.rests(region) for site, region in regions.items() if _is_proved(site)}
    while True:
        found = {site: places & doubtful.keys() for site, places in rests.items()}
        hit = {site: doubtful[min(places)] for site, places in found.items() if places}
        if not hit:
            return
        for site, on in hit.items():
            del rests[site]
            if site.proof is None or on.proof is None or on.proof.outcome is Outcome.FAILED:
                site.proof = None
            else:
                why = f"it assumes equal tensors at {on.root}, which are not proved equal"
                site.proof = replace(site.proof, outcome=Outcome.UNPROVED, reason=why, remembered=False)
        doubtful.update((place, site) for site in hit for place in _equal(site))


def _is_failed(site: Site) -> bool:
    return site.proof is not None and site.proof.outcome is Outcome.FAILED


def _is_proved(site: Site) -> bool:
    return site.proof is not None and site.proof.outcome is Outcome.PROVED


def _equal(site: Site) -> Iterator[TensorAddress]:
    """Tensors whose consumers read others now, which other sites assume to be equal because of this one."""
    for step in site.steps:
        for pair in (step.renamed or {}).items():
            equal = step.scope.equal_tensors
            yield from ((step.scope.address, one) for one, other in (pair, pair[::-1]) if equal.get(one) == other)


def _prove_shared(run: RuleRun, sites: Sequence[Site]) -> None:
    """Prove sites that only replaced initializers by equal ones: all bytes of both are compared in the file."""
    contents = TensorContents(run.model)
    try:
        for site in sites:
            site.proof = _shared_proof(contents, site.steps[0].scope, site.shared)
    finally:
        contents.close()


def _shared_proof(contents: TensorContents, scope: Scope, shared: Mapping[str, str]) -> SiteProof:
    for old, new in shared.items():
        one, other = scope.stored(old), scope.stored(new)
        try:
            if one is None or other is None or not contents.same(one, other):
                return SiteProof(Outcome.FAILED, f"the bytes of {old!r} and {new!r} differ")
        except ModelFileError as error:
            return SiteProof(Outcome.UNPROVED, f"the bytes of {old!r} and {new!r} cannot be compared: {error}")
    return SiteProof(Outcome.PROVED, oracle="a comparison of all bytes", reference="the bytes in the file")


def _region(site: Site, handed_on: set[tuple[Scope, str]], inner: set[str], rules: Sequence[Rule]) -> Region:
    """The net change of a site.

    handed_on: tensors that any site of the run replaced by others.  inner: tensors that the source does not have.
    """
    steps = site.steps
    removed = [node for step in steps for node in step.removed if node.original]
    supporting_tensors = dict.fromkeys(node for step in steps for node in step.match.kept if node.original)
    kept = [node for node in supporting_tensors if node not in removed] if supporting_tensors else []
    added = [node for step in steps for node in step.added if node.alive]
    renamed_nodes = {new: old for step in steps for new, old in step.kept.items() if new.alive}
    renamed_nodes = {new: old for new, old in renamed_nodes.items() if new.outputs != old.outputs}
    earlier: dict[str, str] = {}
    if renamed_nodes.keys() >= set(added) and all(old.original for old in renamed_nodes.values()):
        # Nothing else is new: what these nodes compute need not be proved, and may be random.
        removed, added = [node for node in removed if node not in renamed_nodes.values()], []
        pairs = [zip(new.outputs, old.outputs, strict=True) for new, old in renamed_nodes.items()]
        earlier = {now: name for names in pairs for now, name in names}
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
        if now in earlier:
            outputs.append((name, earlier[now]))
            continue
        is_there = scope.defining_scope(now) is not None or (scope, now) in handed_on  # else it has no consumer left
        if now in made_anew or (is_there and now != name and (now in fresh or now not in made)):
            outputs.append((name, now))
    read = {now for _, now in outputs}.union(*(node.inputs for node in added))
    copied = producing_nodes(scope, read, inner, added)
    read.update(*(node.inputs for node in copied))
    slack = sum(rule.approximate for rule in rules)
    apart = frozenset(kind for rule in rules for kind in rule.differs)
    after = (*_needed(kept, read), *copied, *added)
    return Region(scope, (*removed, *kept), after, tuple(outputs), intended_error=slack, intended_differences=apart)


def _needed(kept: Sequence[Node], read: set[str]) -> list[Node]:
    """The supporting nodes of a site that its new nodes and outputs still depend on."""
    found: list[Node] = []
    for node in sorted(kept, key=lambda item: -item.source_slot):
        if not read.isdisjoint(node.outputs):
            found.append(node)
            read = read.union(node.proto.input)
    return found[::-1]
