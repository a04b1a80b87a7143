"""The texts of a model diff."""

from surgeon.display.diff.model_diff import ModelChange, ModelDiff
from surgeon.text import join_first

SHOWN = 2  # names


def common_nodes_text(found: ModelDiff) -> str:
    """How many nodes are the same in both models."""
    names = f", {found.renamed:,} of them under another name" if found.renamed else ""
    return f"{found.same:,} of {found.nodes[0]:,} and {found.nodes[1]:,} nodes{names}"


def no_difference_text(found: ModelDiff) -> str:
    """The differences between models that compute the same."""
    others = [*(["names"] if found.renamed else []), *(["what they tell of themselves"] if found.told else [])]
    return f"nothing but {' and '.join(others)}" if others else "nothing"


def change_words(change: ModelChange) -> str:
    """A change in one line: how often, what, and where."""
    times = f"{change.count:,} × " if change.count > 1 else ""
    inside = f" ({change.scope})" if change.scope else ""
    where = where_words(change)
    return f"{times}{change.what}{f' at {where}' if where else ''}{inside}"


def where_words(change: ModelChange) -> str:
    """The first nodes: the last node of each site, by its name in the first model, else in the second."""
    names = [(gone or come)[-1] for gone, come in change.sites]
    return join_first(names, SHOWN) if names else ""
