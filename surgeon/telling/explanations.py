"""What is said of why rules do not fire."""

from collections.abc import Iterable, Iterator, Sequence

from surgeon.explaining.explain import Explanation, Explanations
from surgeon.listing import and_more, counted, first_of
from surgeon.misses.findings import Mismatch, further_lines, told

SHOWN = 2  # nodes named for equal misses
FEW = 5  # rules that are told one by one although nothing is near to what they look for


def explanations_text(found: Explanations) -> str:
    """All of it, an empty line between rules."""
    return "\n\n".join("\n".join(lines) for lines in explained(found, found.node))


def explained(found: Sequence[Explanation], node: str | None = None) -> Iterator[Iterable[str]]:
    """The lines of each rule; of many to which nothing in the model is near, those of all at the end, one for each.

    node: the name that was asked for.
    """
    near, far = list[Explanation](), list[Explanation]()
    for one in found:
        (near if node is not None or one.fires or any(miss.node for miss in one.misses) else far).append(one)
    is_long = len(far) > FEW
    for one in near if is_long else found:
        yield explanation_lines(one, node)
    if is_long:
        title = f"{counted(len(far), 'other rule')} look for what is not there"
        yield [title, *(f"  {one.rule}: {'; '.join(dict.fromkeys(map(told, one.misses)))}" for one in far)]


def explanation_lines(found: Explanation, node: str | None = None) -> Iterator[str]:
    """What stands against one rule, line by line."""
    yield explanation_title(found, node)
    for miss in found.misses:
        yield from miss_lines(miss)
    if found.more:
        yield f" {and_more(found.more)} for other reasons (--top shows more)"


def explanation_title(found: Explanation, node: str | None) -> str:
    count = len(found.fires)
    asked = "" if node is None else f" at {node}"
    if found.taken_by and not count:
        asked += f", where {' and '.join(found.taken_by)} {'does' if len(found.taken_by) == 1 else 'do'}"
    if not count:
        near = any(miss.node for miss in found.misses)
        return f"{found.rule} does not fire{asked}{'; nearest misses:' if near else ':' if found.misses else ''}"
    if node is not None:
        return f"{found.rule} fires{asked}"
    names = first_of([name for _, name in found.fires], SHOWN)
    title = f"{found.rule} fires at {counted(count, 'site')} ({names})"
    return f"{title}; nearest misses:" if found.misses else f"{title}; nothing is missed"


def miss_lines(miss: Mismatch) -> Iterator[str]:
    """One miss: where and why, what else, what would mend it, and where else."""
    scope = f" ({miss.scope})" if miss.scope else ""
    place = f"at {miss.node}{scope}: " if miss.node else ""
    yield f"  {place}{told(miss)}"
    yield from (f"  {line}" for line in further_lines(miss))
    if miss.others:
        yield f"   {and_more(len(miss.others), 'like it')}: {first_of(miss.others, SHOWN)}"
