"""The engine of strategies: their order, the cases that a budget leaves out, and the facts that a strategy gets."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.strategies.models import MODEL_STRATEGIES
from surgeon.proof.strategies.site_strategies import SITE_STRATEGIES
from surgeon.proof.strategies.strategy import LEAST_WORK, STRATEGIES, InputCase, Strategy, cases, strategy
from surgeon.runtime.inputs import float_fills
from surgeon.runtime.inputs.fill import Blank, Fill, fill_array
from tests.command_line import ROOT


def assignment(work: int) -> DimAssignment:
    made = DimAssignment({}, {})
    made.work = work
    return made


def proposing(name: str, *works: int) -> Strategy:
    return Strategy(name, "", lambda _: iter([InputCase(assignment(work), {}, "") for work in works]))


REGION = SimpleNamespace()


def test_the_first_of_each_strategy_comes_before_the_second_of_any():
    found = list(cases(REGION, [proposing("a", 1, 1, 1), proposing("b", 1), proposing("c", 1, 1)]))
    assert [case.strategy for case in found] == ["a", "b", "c", "a", "c", "a"]


def test_a_budget_ends_after_the_first_of_each():
    found = list(cases(REGION, [proposing("a", 50, 50, 50), proposing("b", 50, 50)], budget=2 * LEAST_WORK))
    assert [case.strategy for case in found] == ["a", "b"]
    found = list(cases(REGION, [proposing("a", 50, 50, 50), proposing("b", 50, 50)], budget=3 * LEAST_WORK))
    assert [case.strategy for case in found] == ["a", "b", "a"], "a case counts as some work at least"


def test_the_first_cases_run_whatever_they_cost():
    found = list(cases(REGION, [proposing("a", 1 << 40, 1), proposing("b", 1 << 40)], budget=1))
    assert [case.strategy for case in found] == ["a", "b"]


def test_a_strategy_is_told_whether_the_original_ran():
    heard = []

    def propose(_):
        heard.append((yield InputCase(assignment(1), {}, "")))
        heard.append((yield InputCase(assignment(1), {}, "")))

    taken = cases(REGION, [Strategy("one", "", propose), proposing("other", 1, 1)])
    next(taken)
    taken.send(False)
    taken.send(True)
    assert heard == [False], "the answer to another strategy's case is not heard"
    taken.send(None)
    with pytest.raises(StopIteration):
        taken.send(None)


def test_a_name_names_one_strategy():
    add = strategy("twice", because="it is not added")
    add(lambda _: iter(()))
    try:
        with pytest.raises(ValueError, match="two strategies have the name 'twice'"):
            add(lambda _: iter(()))
    finally:
        del STRATEGIES["twice"]


LISTED = (*SITE_STRATEGIES, *(item for item in MODEL_STRATEGIES if item not in SITE_STRATEGIES))
PAGE = ROOT / "docs" / "proofs.md"
TABLE = re.compile(r"(?<=<!-- strategies -->\n).*?(?=<!-- end of strategies -->)", re.DOTALL)


def table() -> str:
    """The strategies, each with the mistake that it finds, as a table of the page."""
    lines = ["", "| strategy | finds | in sites | in models |", "|---|---|---|---|"]
    for item in LISTED:
        site = "fails" if item in SITE_STRATEGIES else ""
        whole = ("is reported" if item.informs else "fails") if item in MODEL_STRATEGIES else ""
        lines.append(f"| {item.name} | {item.because} | {site} | {whole} |")
    return "\n".join([*lines, "", ""])


def test_the_page_has_the_table_of_strategies():
    """`python -m tests.test_strategies` writes it anew."""
    assert TABLE.search(PAGE.read_text(encoding="utf-8"))[0] == table()


def test_each_strategy_says_in_one_sentence_which_mistake_it_finds():
    for item in LISTED:
        assert not item.because.endswith("."), item.name
        assert ". " not in item.because, item.name


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(lambda _: table(), text), encoding="utf-8")


FILLS = [fill for fill in vars(float_fills).values() if isinstance(fill, Fill)]
FILLS += [float_fills.at_middle(0.0), float_fills.row_magnitudes(1.0), float_fills.special_pairs(0, 0)]


@pytest.mark.parametrize("fill", FILLS, ids=lambda fill: fill.name)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), (2, 3)])
def test_a_fill_fills_inputs_of_any_size(fill, shape):
    spec = SimpleNamespace(dtype=np.dtype("float32"), half=False, kind="plain", role=None)
    assert fill_array(fill, Blank(spec, shape, {}, np.random.default_rng(0))).shape == shape
