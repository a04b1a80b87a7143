"""One site of a rewrite, several equal sites, and a match of a pattern, as blocks."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from surgeon.display.blocks import (
    TIMES,
    Block,
    Code,
    Document,
    Facts,
    Figure,
    Item,
    Items,
    Note,
    Section,
    Span,
    Text,
    outcome,
)
from surgeon.display.content.comparison import deviation_text
from surgeon.display.registry import reports
from surgeon.pipeline.reports.site import NodeInfo, Site
from surgeon.proof.counterexample import without_names
from surgeon.proof.site_proof import SiteProof
from surgeon.rules.matching.match import Match
from surgeon.text import and_more, join_first, of_the_limit

if TYPE_CHECKING:
    from surgeon.display.pictures.svg import Picture

SHOWN_RULES, SHOWN_SIZES = 2, 3


def node_line(node: NodeInfo) -> str:
    """A node as ONNX text: outputs = op(inputs, attributes), and its name."""
    inside = ", ".join((*node.inputs, node.attributes) if node.attributes else node.inputs)
    return f"{', '.join(node.outputs)} = {node.op}({inside})  # {node.name}"


def site_lines(site: Site) -> Iterator[str]:
    """The nodes of a site, with a minus before and a plus after."""
    yield from (f"- {node_line(node)}" for node in (*site.replaced, *site.swept))
    for old, new in site.shared.items():
        yield f"- initializer {old}"
        yield f"+ its readers read {new}"
    yield from (f"+ {node_line(node)}" for node in site.added)


def diff_lines(sites: Sequence[Site]) -> Iterator[str]:
    """The nodes of each site below a line that names it."""
    for number, site in enumerate(sites, 1):
        yield f"@@ {number}/{len(sites)} {' + '.join(site.rules)} at {site.root} ({scope_name(site)}) @@"
        yield from site_lines(site)


def scope_name(site: Site) -> str:
    """The name of a site's scope."""
    return site.scope or "main graph"


def rules_text(site: Site) -> str:
    """The main rule of a site, and its other rules."""
    rule, others = site.rule, [name for name in site.rules if name != site.rule]
    return f"{rule} (with {join_first(others, SHOWN_RULES)})" if others else rule


def site_words(site: Site) -> Iterator[str]:
    """Why a site is unproved or was rolled back, and the errors of both versions if its proof failed."""
    yield site.reason
    worst = site.proof.worst if site.proof is not None else None
    if worst is not None and not worst.ok and worst.original is not None:
        yield f"original {deviation_text(worst.original)}; rewritten {deviation_text(worst.rewritten)}"


def site_classes(sites: Sequence[Site]) -> list[list[Site]]:
    """Equal sites together: by their rules, their nodes before and after, and their outcome."""
    found: dict[object, list[Site]] = {}
    for site in sites:
        nodes = (tuple((node.op, node.attributes) for node in side) for side in (site.replaced, site.added))
        found.setdefault((site.rules, *nodes, site.outcome, unnamed_reason(site)), []).append(site)
    return list(found.values())


def unnamed_reason(site: Site) -> str:
    """The reason of a site without the name of the tensor that differs most, so that equal reasons are equal."""
    worst = site.proof.worst if site.proof is not None else None
    return without_names(site.reason.replace(repr(worst.name), "''")) if worst is not None else site.reason


def reasons(sites: Sequence[Site]) -> Items:
    """Why sites are not proved, or what their proofs leave open; equal sites once."""
    items = []
    for equal in site_classes(sites):
        reason, *numbers = site_words(equal[0])
        where = f"{rules_text(equal[0])} at {equal[0].root}{and_more(len(equal) - 1, 'like it')}"
        items.append(Item(f"{where}: {reason}", [Span(line, "faint") for line in numbers]))
    return Items(items, more="(--report has all)")


def kinds_of_sites(sites: Sequence[Site]) -> list[Block]:
    """Equal sites once, with the picture of the first."""
    return [_kind(equal) for equal in site_classes(sites)]


def _kind(sites: Sequence[Site]) -> Section:
    first, count = sites[0], len(sites)
    times = (" ", TIMES, f" {count:,}") if count > 1 else ""
    title = (_name(first), times, " at ", Span(f"{first.root}{and_more(count - 1)}", "code"))
    names = [Span(f"{scope_name(site)}: {site.root}" if site.scope else site.root, "code") for site in sites]
    others = [Section(f"all {count:,} sites", [Items(names)])] if count > 1 else []
    return Section(title, [*_site_blocks(first), *others])


def _name(site: Site) -> Text:
    return outcome(site.outcome), " ", Span(rules_text(site), "strong")


def _site_blocks(site: Site) -> Iterator[Block]:
    """The reason, the nodes before and after, and the proof of a site."""

    def draw() -> "Picture":
        from surgeon.display.pictures.draw import draw

        return draw(site)

    about = f"{rules_text(site)} at {site.root}, before and after"
    nodes = Code(list(site_lines(site)), "before and after", "diff")
    yield Note(f"{site.reason}." if site.reason else "")
    yield nodes if site.is_shared else Figure(draw, about, [nodes])
    yield Facts(list(_proof_rows(site.proof)) if site.proof is not None else ())


def _proof_rows(proof: SiteProof) -> Iterator[tuple[str, Text]]:
    """The proof of one site, and its largest error."""
    if proof.runs:
        yield "proof", f"{proof.runs:,} runs under {proof.oracle}, against {proof.reference}"
    elif proof.oracle:
        yield "proof", f"{proof.oracle}, against {proof.reference}"
    yield "tried", ", ".join(proof.kinds)
    yield "sizes", join_first(proof.sizes, SHOWN_SIZES)
    for place, unseen in enumerate(proof.unseen):
        yield "" if place else "unseen", unseen
    worst = proof.worst
    if worst is not None:
        yield "differs", f"by {of_the_limit(worst.severity)} at most, in {worst.name!r} ({worst.dtype})"
        if worst.because:
            yield "limit", f"{worst.limit_over_scale:.2g} of the largest number, mostly because {worst.because}"
        own = "" if worst.original is None else f"original {deviation_text(worst.original)}; "
        yield "", f"{own}rewritten {deviation_text(worst.rewritten)}"


@reports(Site, "site")
def site_document(site: Site) -> Document:
    """One site."""
    head = Note((_name(site), " at ", Span(site.root, "code")))
    return Document(f"{site.rule} at {site.root}", [head, *_site_blocks(site)])


@reports(Match, "match", lambda match: _match_data(match))
def match_document(match: Match) -> Document:
    """A match of a pattern: its nodes, and its captures."""

    def draw() -> "Picture":
        from surgeon.display.pictures.draw import draw_match

        return draw_match(match)

    about = f"{match.pattern.name} at {match.root.label}"
    head = (Span(match.pattern.name, "strong"), " at ", Span(match.root.label, "code"), f" ({match.pattern.where})")
    captures = [(name, Span(text, "code")) for name, text in _captures(match)]
    return Document(about, [Note(head), Figure(draw, about), Facts(captures)])


def _captures(match: Match) -> Iterator[tuple[str, str]]:
    """The value of each capture as a text."""
    for name, found in match.bound.items():
        if not name.startswith("_"):
            yield name, "left out" if found is None else str(found[0] if isinstance(found, tuple) else found)


def _match_data(match: Match) -> dict[str, Any]:
    return {
        "pattern": match.pattern.name,
        "nodes": [node.label for node in match.nodes],
        "outputs": list(match.outputs),
        "captures": dict(_captures(match)),
    }
