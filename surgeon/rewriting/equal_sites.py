"""Sites that look exactly like one another: of them one is proved, and the others are not even cut out.

A model of 20,000 places has some few kinds of them.  What the search knows already, that a place fits the template of
another, need not be found out again by comparing what was taken out and put in there.
"""

from collections.abc import Callable, Hashable, Sequence

from surgeon.indexing.scope import Scope
from surgeon.matching.match import Match
from surgeon.rewriting.result import Site

Tell = Callable[[Scope, Sequence[str]], Hashable | None]
"""What tells data that a site reads, None where a proof may rest on more of them: `SiteCheck.plain`."""


def kin_of(site: Site, tell: Tell) -> Hashable:
    """What sites have in common whose regions are equal; the site itself where only its region says so.

    That is so where one step wrote it, from the same fragment, for matches of one template.
    """
    (step, *others), match = site.steps, site.steps[0].match
    if others or match.template is None or not _is_plain(match) or step.renamed or step.orphans:
        return site
    names = tuple([held for held in match.bound.values() if isinstance(held, str)])
    told = tell(match.scope, names) if len(set(names)) == len(names) == len(match.bound) else None
    if told is None:
        return site
    made = tuple([node.op for node in step.added])
    return (step.rule, id(match.template), id(step.fragment), id(match.scope.versions), made, told)


def _is_plain(match: Match) -> bool:
    """Whether it stands for itself: in the main graph or a body of it, all of it replaced, its output in use."""
    return match.scope.function is None and not match.scope.redirected and not match.kept and len(match.outputs) == 1
