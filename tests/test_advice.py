"""The advice below the table of a rewrite, and near misses."""

import io
from itertools import takewhile
from pathlib import Path

import pytest

import surgeon
from surgeon import Graph, Tensor, require, rule
from surgeon.display.terminal.terminal_renderer import show
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.testing import parse
from tests.command_line import CONSTANTS, EXACT, ROOT, run, save

MODEL = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"
NUMBERS = "float three = {3}, float zero = {0}, float six = {6}"
HARD = "{i}a = Add({x}, three) {i}c = Clip({i}a, zero, six) {i}m = Mul({x}, {i}c) {y} = Div({i}m, six)"


def hard_swishes(folder: Path, count: int = 3, more: str = "", **settings: object) -> Path:
    """A stack of HardSwish in primitive ops, at an opset that has none."""
    names = ["x", *(f"h{place}" for place in range(1, count)), "y"]
    body = " ".join(HARD.format(i=f"l{place}", x=names[place], y=names[place + 1]) for place in range(count))
    known = {"opset": 13, "constants": f"{CONSTANTS}, {NUMBERS}", **settings}
    return save(folder, f"{body} {more}", **known)  # type: ignore[arg-type]  # settings are those of save


def text_of(report: RewriteReport, **settings: bool) -> str:
    """The report as printed where there is no terminal."""
    stream = io.StringIO()
    show(report, stream, **settings)
    return stream.getvalue()


def missed(report: RewriteReport) -> list[str]:
    """The lines of near misses and of named rules that did nothing, in the details."""
    lines = text_of(report, verbose=True).splitlines()
    if "not rewritten" not in lines:
        return []
    start = lines.index("not rewritten") + 1
    found = lines[start : lines.index("", start)]
    return list(takewhile(lambda line: line != "  other reasons", found))


def dry(source: object, rules: object, **settings: object) -> RewriteReport:
    """The report of a run that writes nothing."""
    return surgeon.rewrite(source, rules, dry_run=True, **settings)[1]


def test_what_a_newer_opset_would_bring_is_to_be_done_next(tmp_path: Path) -> None:
    """In number, and with what to type; it is not told again among the misses."""
    report = dry(hard_swishes(tmp_path), "ort")
    first, outcome, *others = text_of(report).splitlines()
    assert (first, outcome) == ("in.onnx  12 nodes", "UNCHANGED  no rule matched")
    assert others[:2] == [
        "next     3 hard_swish more with opset 14: add --upgrade auto, or surgeon upgrade IN OUT --opset 14",
        "         surgeon explain IN --rules ort shows what comes near",
    ]
    assert "opset 14" not in "\n".join(missed(report))


def test_of_several_opsets_the_one_that_brings_all_is_named(tmp_path: Path) -> None:
    """One gelu waits for opset 20, and three hard swishes for 14, or the other way round."""
    gelu = EXACT.format(i="g", x="x", y="z")
    report = dry(hard_swishes(tmp_path, more=gelu), "hard_swish,gelu:gelu", target="onnx")
    line = "3 hard_swish more with opset 14, 1 gelu more with opset 20: add --upgrade auto, or surgeon upgrade IN"
    assert line in text_of(report)
    two = f"{gelu} {EXACT.format(i='k', x='z', y='w')}"
    report = dry(hard_swishes(tmp_path, 1, more=two), "hard_swish,gelu:gelu", target="onnx")
    line = "1 hard_swish more with opset 14, 2 gelu more with opset 20: add --upgrade auto, or surgeon upgrade IN OUT"
    assert line in text_of(report)


def test_nothing_is_said_where_nothing_would_help(tmp_path: Path) -> None:
    """At opset 14 all of them fire."""
    report = dry(hard_swishes(tmp_path, opset=14), "hard_swish")
    assert report.count("hard_swish") == 3
    assert "upgrade" not in text_of(report)


def test_a_real_model_has_few_misses_and_no_far_ones() -> None:
    """Two groups on an export without convolutions.  The whole set leaves no near miss there."""
    report = dry(MODEL, "linear,norms")
    lines = missed(report)
    assert lines
    assert "\nmissed " not in text_of(report)
    assert not [line for line in lines if "; 0 of " in line or "; 1 of " in line or "deform_conv" in line]
    near = [miss for miss in report.misses if miss.near]
    assert all(2 * miss.matched >= miss.total and miss.matched > 1 for miss in near)


def test_near_misses_are_searched_for_named_rules_only() -> None:
    """A group names none of its rules: each of its misses is a match that was declined."""
    report = dry(MODEL, "ort")
    assert report.misses
    assert all(miss.kind == "already" or not miss.total for miss in report.misses)
    assert "deform_conv" not in {miss.rule for miss in report.misses}
    report = dry(MODEL, "ort,deform_conv")
    (miss,) = [miss for miss in report.misses if miss.rule == "deform_conv"]
    assert miss.reason == "the model has no *::deform_conv2d"


def test_verbose_at_the_command_line() -> None:
    """Every rule with its reason."""
    short, long = (
        run("rewrite", MODEL, "unused.onnx", "-r", "ort", "--dry-run", *more).stdout for more in ((), ("-v",))
    )
    assert len(long.splitlines()) > len(short.splitlines()) + 20


@rule(patterns=[lambda g, x: g.op("*::placed", x)])
def placed(g: Graph, x: Tensor) -> Tensor:
    """Never where x is y."""
    return g.relu(x)


def never(x: Tensor) -> None:
    """Refuse it."""
    require(x.dtype is None, "it has a dtype")


@rule(patterns=[lambda g, x: g.op("*::placed", x)], conditions=[never])
def refused(g: Graph, x: Tensor) -> Tensor:
    """Never."""
    return g.relu(x)


def many(*rules: object) -> RewriteReport:
    """Rules that were asked for among many, so that none of them has a name of its own."""
    text = "(float[n] x) => (float[n] y) { a = my.placed(x) b = Abs(a) y = Neg(b) }"
    report = dry(parse(text), rules)
    names = tuple(name for names in report.selection.values() for name in names)
    report.selection = {"set": (*names, *(f"other{place}" for place in range(9)))}
    return report


def test_a_rule_for_placeholders_is_reported_where_there_is_one() -> None:
    """One node of a kind that nobody else writes says enough; a Relu that is merely no other op does not."""

    @rule(patterns=[lambda g, x: g.op("*::lacking", x)])
    def lacking(g: Graph, x: Tensor) -> Tensor:
        return g.relu(x)

    @rule(patterns=[lambda g, x: g.abs(x)], conditions=[never])
    def plain(g: Graph, x: Tensor) -> Tensor:
        return g.relu(x)

    lines = missed(many(refused, lacking, plain))
    assert [line.partition(" (")[0] for line in lines] == ["  refused at a: it has a dtype"]


def test_a_named_rule_that_did_nothing_has_its_line() -> None:
    """The best reason there is; quiet zero is a defect."""
    text = "(float[n] x) => (float[n] y) { y = Relu(x) }"
    (line,) = missed(dry(parse(text), placed))
    assert line.startswith("  placed: the model has no *::placed (")
    (line,) = missed(dry(parse(text), "deform_conv"))
    assert line == "  deform_conv: the model has no *::deform_conv2d (deform_conv.py:20)"
    report = dry(parse(text), "deform_conv")
    report.misses = []
    assert missed(report) == ["  deform_conv: nothing in the model comes near"]


def test_a_set_of_which_nothing_came_near_says_so() -> None:
    """One line for all of them."""
    report = dry(parse("(float[n] x) => (float[n] y) { y = Relu(x) }"), "attentions")
    assert report.outcome == "unchanged"
    (line,) = missed(report)
    assert line.endswith(" rules: nothing in the model matches")


PAIRS = "".join(f"a{place} = Abs(x) b{place} = Neg(a{place}) c{place} = Sqrt(b{place}) " for place in range(5))
ODD = "".join(f"d{place} = Sin(x) e{place} = Neg(d{place}) f{place} = Sqrt(e{place}) " for place in range(40))


def test_a_rule_that_fired_here_and_nearly_fired_there_is_reported_with_the_count() -> None:
    """Five of forty-five: two of three nodes fit at the others, all of which are counted."""

    @rule(patterns=[lambda g, x: g.sqrt(g.neg(g.abs(x)))])
    def three(g: Graph, x: Tensor) -> Tensor:
        return g.relu(x)

    names = ", ".join([*(f"c{place}" for place in range(5)), *(f"f{place}" for place in range(40))])
    text = f"(float[n] x) => (float[n] y) {{ {PAIRS} {ODD} y = Sum({names}) }}"
    report = dry(parse(text), three)
    assert report.count("three") == 5
    (line,) = missed(report)
    assert line.startswith("  three at f0 and 39 more like it: expected Abs, found Sin at 'd0' (")
    assert line.endswith("; 2 of 3 nodes matched")


def test_misses_of_several_rules_for_one_reason_are_one_line() -> None:
    """The rules are named, the places counted."""
    made = [
        rule(patterns=[lambda g, x: g.neg(g.abs(x))], conditions=[never], name=f"rule{place}")(lambda g, x: g.relu(x))
        for place in range(2)
    ]
    text = "(float[n] x) => (float[n] y, float[n] z) { a = Abs(x) y = Neg(a) b = Abs(y) z = Neg(b) }"
    report = dry(parse(text), made)
    (line,) = missed(report)
    assert line.startswith("  rule0, rule1 at y and 3 more like it: it has a dtype (")


@pytest.mark.parametrize("ep", ["cpu", "cuda"])
def test_a_rule_for_another_execution_provider_is_not_missed(ep: str) -> None:
    """It is not for who asked; `surgeon explain` says so."""

    @rule(patterns=[lambda g, x: g.neg(g.abs(x))], ep="cuda")
    def elsewhere(g: Graph, x: Tensor) -> Tensor:
        return g.relu(x)

    model = parse("(float[n] x) => (float[n] y) { a = Abs(x) y = Neg(a) }")
    report = dry(model, elsewhere, ep=ep)
    assert not [miss for miss in report.misses if miss.near]
    assert bool(report.misses) == (ep == "cpu")
    if ep == "cpu":
        (miss,) = surgeon.explain(model, elsewhere)
        assert miss.reason == "the rule supports only the execution provider cuda"
