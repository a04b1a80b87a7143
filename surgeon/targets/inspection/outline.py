"""A graph grouped for people: by the scopes in names, and by repetition.

Items that follow each other and are alike, three layers or two blocks of nodes, become one stack.  If a level is still
too wide, consecutive items become parts of similar size.  Nothing is left out: every node is in one group, and every
group can be opened.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

Kind = Literal["scope", "stack", "block", "part"]
Item: TypeAlias = "int | OutlineGroup"

WIDE, PART = 60, 36  # items that a level may have before it is cut into parts, and items of one
MANY = 12  # items of a level that is looked through for blocks
SHORTEST = 3  # nodes of a block
FEW = 6  # nodes in a row that make a part
PERIODS = 32  # lengths of blocks that are tried, the most frequent first


@dataclass(eq=False, slots=True)
class OutlineGroup:
    """A part of a graph that is drawn as one box until it is opened."""

    label: str
    """Title of the box."""
    kind: Kind = "scope"
    """A scope, a stack of equal groups, one block of a stack, or a part of a wide group."""
    items: list[Item] = field(default_factory=list)
    """Nodes by their index in the file, and groups."""

    def nodes(self) -> Iterator[int]:
        """All nodes in it."""
        for item in self.items:
            if isinstance(item, OutlineGroup):
                yield from item.nodes()
            else:
                yield item


def build_outline(paths: Sequence[tuple[str, ...]], keys: Sequence[Hashable]) -> OutlineGroup:
    """Group nodes.  paths: the scopes of each, outermost first; keys: equal for nodes that are alike."""
    root = _tree(paths)
    _Folding(keys).fold(root)
    return root


def _tree(paths: Sequence[tuple[str, ...]]) -> OutlineGroup:
    """Groups by scope, in order of their first nodes; chains of one group become one."""
    root = OutlineGroup("")
    known: dict[tuple[str, ...], OutlineGroup] = {(): root}
    for place, path in enumerate(paths):
        group = known.get(path)
        if group is None:
            for length in range(1, len(path) + 1):
                if path[:length] not in known:
                    group = known[path[:length]] = OutlineGroup(path[length - 1])
                    known[path[: length - 1]].items.append(group)
            group = known[path]
        group.items.append(place)
    root.items = [_without_chains(item) for item in root.items]
    return root


def _without_chains(item: Item) -> Item:
    """A group of one node is that node, and one of one group is that group under both names."""
    if not isinstance(item, OutlineGroup):
        return item
    item.items = [_without_chains(inner) for inner in item.items]
    only = item.items[0]
    if len(item.items) > 1:
        return item
    if isinstance(only, OutlineGroup):
        only.label = f"{item.label}/{only.label}"
    return only


class _Folding:
    """Stacks what repeats.  Keys are numbered, so that equal groups have one number however deep they are."""

    def __init__(self, keys: Sequence[Hashable]) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._nodes = [self._number(("node", key)) for key in keys]
        self._groups: dict[int, int] = {}

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _key(self, item: Item) -> int:
        """The number of a node, or of a group's items before they were stacked."""
        return self._groups[id(item)] if isinstance(item, OutlineGroup) else self._nodes[item]

    def fold(self, group: OutlineGroup) -> None:
        """Stack the items of a group, and of all groups in it."""
        for item in group.items:
            if isinstance(item, OutlineGroup):
                self.fold(item)
        self._groups[id(group)] = self._number(("group", *map(self._key, group.items)))
        group.items = _parted(self._stacked(group.items))

    def _stacked(self, items: list[Item]) -> list[Item]:
        """The items, with repeated ones in stacks."""
        pending, found = [items], list[Item]()
        while pending:
            some = pending.pop()
            run = self._run(some)
            if run is None:
                found += some
                continue
            start, period, times = run
            end = start + period * times
            pending += [some[end:], [self._stack(some[start:end], period)], some[:start]]
        return found

    def _run(self, items: list[Item]) -> tuple[int, int, int] | None:
        """The widest run of repeated items: the first, the length of a block, and how often it repeats."""
        if len(items) < SHORTEST:
            return None
        keys = np.array([self._key(item) for item in items])
        best: tuple[int, int, tuple[int, int, int]] | None = None
        for period in _periods(keys) if len(items) > MANY else [1]:
            for start, length in _runs(keys[:-period] == keys[period:]):
                times = length // period + 1
                if self._is_worth(items, start, period, times):
                    found = (times * period, -period, (start, period, times))
                    best = found if best is None else max(best, found)
        return None if best is None else best[2]

    def _is_worth(self, items: list[Item], start: int, period: int, times: int) -> bool:
        """Whether a run makes a stack: three groups or more, or two blocks or more of some nodes."""
        if period == 1:
            return times > 2 and isinstance(items[start], OutlineGroup)
        return times > 1 and len(list(OutlineGroup("", items=items[start : start + period]).nodes())) >= SHORTEST

    def _stack(self, items: list[Item], period: int) -> OutlineGroup:
        blocks = [self._block(items[at : at + period], at // period) for at in range(0, len(items), period)]
        named = period == 1
        stack = OutlineGroup(f"{blocks[0].label} … {blocks[-1].label}" if named else f"{len(blocks)} blocks", "stack")
        stack.items = _parted(list(blocks))
        self._groups[id(stack)] = self._number(("stack", len(blocks), self._groups[id(blocks[0])]))
        return stack

    def _block(self, items: list[Item], place: int) -> OutlineGroup:
        if len(items) == 1 and isinstance(items[0], OutlineGroup):
            return items[0]
        block = OutlineGroup(f"block {place + 1}", "block")
        self._groups[id(block)] = self._number(("group", *map(self._key, items)))
        block.items = _parted(self._stacked(items) if len(items) > MANY else items)
        return block


def _periods(keys: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> list[int]:
    """Distances between equal items, the most frequent first, up to half of the items."""
    last: dict[int, int] = {}
    found: Counter[int] = Counter()
    for place, key in enumerate(keys.tolist()):
        if key in last:
            found[place - last[key]] += 1
        last[key] = place
    return [period for period, _ in found.most_common(PERIODS) if 2 * period <= len(keys)]


def _runs(same: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> Iterator[tuple[int, int]]:
    """The start and the length of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(np.int8)))
    yield from ((int(start), int(end - start)) for start, end in zip(edges[::2], edges[1::2], strict=True))


def _parted(items: list[Item]) -> list[Item]:
    """The items of a level; if there are too many, consecutive nodes become parts.

    Groups stay visible, unless there are too many of them.
    """
    if len(items) > WIDE:
        items = [one for run in _between_groups(items) for one in (_cut(run) if len(run) >= FEW else run)]
    while len(items) > WIDE:
        items = _cut(items)
    parts = [item for item in items if isinstance(item, OutlineGroup) and item.kind == "part"]
    for place, part in enumerate(parts):
        part.label = f"part {place + 1} of {len(parts)}"
    return items


def _between_groups(items: list[Item]) -> list[list[Item]]:
    """Runs of nodes, and each group by itself."""
    runs: list[list[Item]] = [[]]
    for item in items:
        if isinstance(item, OutlineGroup):
            runs += [[item], []]
        else:
            runs[-1].append(item)
    return runs


def _cut(items: list[Item]) -> list[Item]:
    """Parts of similar size."""
    count = -(-len(items) // PART)
    size = -(-len(items) // count)
    return [OutlineGroup("", "part", items[at : at + size]) for at in range(0, len(items), size)]
