"""What people read: narrow terminals, long names, many sites and misses."""

import io
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from surgeon import CheckOptions, rewrite
from surgeon.cli.progress import Spinner
from surgeon.display.content.site import diff_lines, node_line
from surgeon.display.terminal.terminal_renderer import show
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.reports.site import NodeInfo
from surgeon.proof.check_result import Outcome
from surgeon.rules.mismatches.mismatch import Mismatch
from surgeon.text import and_more, join_first
from tests.command_line import CONSTANTS, EXACT, ROOT, gelus, rule_file, save


def text_of(report: RewriteReport, **settings: bool) -> str:
    """The report as printed where there is no terminal."""
    stream = io.StringIO()
    show(report, stream, **settings)
    return stream.getvalue()


def rolled_back(path: Path, rules: str, **settings: object) -> RewriteReport:
    """The report of a rewrite that took sites back, written beside the model."""
    return rewrite(path, rules, **{"output": path.with_name("out.onnx"), "keep_going": True, **settings})[1]


def report_of(path: Path, rules: str = "gelu", **settings: object) -> RewriteReport:
    """The report of a dry run."""
    return rewrite(path, rules, dry_run=True, **settings)[1]


def test_many_sites_are_counted_and_the_first_named(tmp_path: Path) -> None:
    """Two names, and how many more."""
    report = report_of(gelus(tmp_path, count=1200))
    text = text_of(report)
    assert "6,000 → 1,200 nodes\n  gelu 1,200\n" in text
    assert "main graph: /h1/Mul, /h2/Mul and 1,198 more" in text_of(report, verbose=True)


def test_sites_in_bodies_name_their_scope(tmp_path: Path) -> None:
    """A site in a branch of an If is told apart from the main graph, in table and diff."""
    body = """
        c = Constant <value = bool {1}> ()
        y = If (c) <
            then_branch = t () => (float[n, 4] a) { d = Div(x, sqrt2) e = Erf(d) f = Add(e, one) h = Mul(x, f)
                                                    a = Mul(h, half) },
            else_branch = s () => (float[n, 4] b) { b = Identity(x) }
        >
    """
    report = report_of(save(tmp_path, body))
    assert "then_branch of /y/If: a" in text_of(report, verbose=True)
    assert "(then_branch of /y/If) @@" in next(diff_lines(report.sites))


@pytest.mark.parametrize("columns", ["30", "80", "200"])
def test_no_name_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    """Whatever the width, every character of a node name is printed, but for those that go beyond all use."""
    name = "/very/long/" + "name" * 45
    report = report_of(gelus(tmp_path, count=1))
    report.sites[0].steps[0].root = SimpleNamespace(original=True, label=name)
    report.misses = [Mismatch("gelu", "exact", name, "expected Erf, found Tanh", "gelu.py:9", 4)]
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal, which alone has a width
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = click.unstyle(text_of(report, verbose=True))
    table, _, rest = text.partition("not rewritten")
    assert all(len(line) <= int(columns) for line in table.splitlines())
    assert "…" not in text
    assert "".join(table.split()).count("".join(name)) == 1
    assert f"  gelu at {name}: expected Erf, found Tanh (gelu.py:9); 4 nodes matched" in rest.splitlines()
    short = click.unstyle(text_of(report)).splitlines()
    assert f"{name}:" in [word for line in short for word in line.split()], "a word is not broken"
    assert all(len(line) <= max(int(columns), len(name) + 10) for line in short)
    further = [line for line in short[1:] if line.startswith(" ")]
    assert all(line.startswith(("  gelu 1", " " * 9)) for line in further)


def test_names_that_look_like_markup_stay_as_they_are(tmp_path: Path) -> None:
    """rich must not take a bracket in a name for a style."""
    report = report_of(gelus(tmp_path, count=1))
    report.sites[0].steps[0].root = SimpleNamespace(original=True, label="/a[bold]:smile:/Mul")
    report.misses = [Mismatch("gelu", "exact", "[red]x", "[/red] is odd", "gelu.py:9", 1)]
    text = text_of(report, verbose=True)
    assert "/a[bold]:smile:/Mul" in text
    assert "gelu at [red]x: [/red] is odd" in text


def told(report: RewriteReport) -> list[str]:
    """The lines of what was not rewritten, in the details."""
    lines = text_of(report, verbose=True).splitlines()
    start = lines.index("not rewritten") + 1
    return lines[start : lines.index("", start)]


def rows(report: RewriteReport, label: str) -> list[str]:
    """The rows of the summary with a label."""
    found, current = list[str](), ""
    for line in text_of(report).splitlines():
        current = current if line.startswith(" " * 9) else line[:9].strip()
        if current == label:
            found.append(line[9:])
    return found


def test_misses_that_name_a_node_come_first_and_many_are_summed_up(tmp_path: Path) -> None:
    """Three rows, the last of which says how many more; in the details each has a line."""
    report = report_of(gelus(tmp_path), "gelu:gelu,gelu:quick_gelu")
    report.misses = [Mismatch("quick_gelu", "exact", "", "there is no Sigmoid", "gelu.py:61", 0)]
    report.misses += [Mismatch("gelu", "exact", f"/n{place}", f"why {place}", "gelu.py:9", 1) for place in range(30)]
    assert rows(report, "missed") == [
        *(f"gelu at /n{place}: why {place} (gelu.py:9); 1 node matched" for place in range(2)),
        "and 29 more: -v shows them",
    ]
    assert len(told(report)) == 31
    report.misses = report.misses[:3]
    assert len(rows(report, "missed")) == 3, "no line is spent on what is not there"


def test_a_group_names_no_rule_so_nothing_of_it_is_missed(tmp_path: Path) -> None:
    """Also one with few rules; the rules of a file that are missed have rows."""
    report = report_of(gelus(tmp_path), "gelu:gelu")
    report.misses = [Mismatch("gelu", "exact", "/n", "why", "gelu.py:9", 1)]
    assert rows(report, "missed") == ["gelu at /n: why (gelu.py:9); 1 node matched"]
    report.selection = {"attentions": ("gelu",)}
    assert rows(report, "missed") == []


def test_the_numbers_beside_rules_add_up_to_the_number_in_the_verdict(tmp_path: Path) -> None:
    """Rules that only prepare a model are one word, unless they were named or nothing else is left."""
    model = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"
    for rules in ("ort", "transformers", "cleanup", "ort,no_op_and", "onnx"):
        report = report_of(model, rules)
        _, done, *_ = text_of(report).splitlines()
        counts = dict(item.rsplit(" ", 1) for item in done.strip().split(" · "))
        assert sum(map(int, counts.values())) == len(report.sites)
        assert ("cleanup" in counts) == (rules != "cleanup")
        assert ("no_op_and" in counts) == (rules in ("cleanup", "ort,no_op_and"))


GROUPS = ("placeholders", "cleanup", "activations", "attentions", "norms", "linear", "onnx", "transformers", "ort")


@pytest.mark.parametrize("group", GROUPS)
def test_a_report_of_the_shipped_model_has_eight_lines(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 80 columns, with its proofs; the limits of proofs are among them."""
    model = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    report = rolled_back(model, group, output="a_file_with_a_long_name.onnx")
    lines = click.unstyle(text_of(report)).splitlines()
    assert len(lines) <= 8
    assert all(len(line) <= 80 for line in lines)
    assert ("non_finite" in " ".join(lines)) == any("non_finite" in site.reason for site in report.sites)


def test_a_stream_of_ascii_gets_ascii(tmp_path: Path) -> None:
    """Signs have another form there."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    show(report_of(gelus(tmp_path)), stream)
    stream.seek(0)
    assert stream.read().startswith("in.onnx  10 -> 2 nodes\n")


def test_misses_for_one_reason_are_reported_once(tmp_path: Path) -> None:
    """The first by name, then how many more."""
    report = report_of(gelus(tmp_path))
    report.misses = [Mismatch("gelu", "exact", f"/n{place}", "why", "gelu.py:9", 1) for place in range(30)]
    assert told(report)[0] == "  gelu at /n0 and 29 more like it: why (gelu.py:9); 1 node matched"


def test_rules_of_a_group_that_did_nothing_are_counted(tmp_path: Path) -> None:
    """Nobody asked for each of them by name; those of a file are still listed."""
    lines = table(rewrite(gelus(tmp_path), "activations", dry_run=True)[1])
    assert lines[0][0] == "gelu"
    command = "surgeon explain IN --rules activations"
    assert lines[1][1:] == ["others", "0", "why:", *command.split()]
    assert "quick_gelu" in [words[0] for words in table(report_of(gelus(tmp_path)))]


def table(report: RewriteReport) -> list[list[str]]:
    """The words of the rows of the table of rules, in the details."""
    lines = text_of(report, verbose=True).splitlines()
    start = lines.index("rules") + 2
    return [line.split() for line in lines[start : lines.index("", start)]]


def test_a_node_is_reported_with_its_attributes() -> None:
    """An input that is left out keeps its comma; no attributes, no comma."""
    node = NodeInfo("n", "com.microsoft::QuickGelu", ("x",), ("y",), "alpha=1.702")
    assert node_line(node) == "y = com.microsoft::QuickGelu(x, alpha=1.702)  # n"
    assert node_line(NodeInfo("n", "Clip", ("x", "", "h"), ("y",), "")) == "y = Clip(x, , h)  # n"


def test_a_miss_without_a_node_is_one_clause() -> None:
    """No "at", no count."""
    miss = Mismatch("gelu", "exact", "", "the model has no Erf", "gelu.py:9", 0)
    assert str(miss) == "gelu: the model has no Erf (gelu.py:9)"


def test_a_miss_reports_the_line_of_the_pattern_and_how_much_of_it_fits() -> None:
    """The op of the line by the name of its helper."""
    miss = Mismatch("gelu", "exact", "/n", "expected Erf, found Tanh at '/t'", "gelu.py:10", 4, 5, "op", op="Erf")
    assert str(miss) == "gelu at /n: expected Erf, found Tanh at '/t' (gelu.py:10 erf); 4 of 5 nodes matched"
    miss = Mismatch("gelu", "exact", "/n", "why", "gelu.py:20", 0, 1, "op", op="com.microsoft::Gelu")
    assert str(miss) == "gelu at /n: why (gelu.py:20 ms_gelu); 0 of 1 node matched"
    miss = Mismatch("gelu", "exact", "/n", "why", "gelu.py:20", 0, 1, "op", op="Cast or Tanh")
    assert str(miss) == "gelu at /n: why (gelu.py:20 Cast or Tanh); 0 of 1 node matched"


def test_the_change_that_would_mend_a_miss_has_a_line(tmp_path: Path) -> None:
    """Below the miss, where it is obvious."""
    report = report_of(gelus(tmp_path))
    change = "set half to 0.5"
    fields = {"op": "Mul", "change": change, "near": True}
    report.misses = [Mismatch("gelu", "exact", "/n", "why", "gelu.py:10", 4, 5, "value", **fields)]
    assert told(report)[:2] == [
        "  gelu at /n: why (gelu.py:10 mul); 4 of 5 nodes matched",
        "    change: set half to 0.5",
    ]


def test_outcomes_are_loud_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Colour where there is a terminal, none where there is not."""
    report = report_of(gelus(tmp_path))
    assert "\x1b[" not in text_of(report)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in text_of(report)


def test_a_rule_that_undoes_nothing_is_listed_with_zero(tmp_path: Path) -> None:
    """Every rule that ran has a row, those without a site too."""
    report = report_of(gelus(tmp_path), rules=f"gelu,{rule_file(tmp_path)}:refusing")
    counts = {words[0]: words[1] for words in table(report)}
    assert counts == {"gelu": "2", "gelu_tanh": "0", "quick_gelu": "0", "refusing": "0"}


def test_the_spinner_shows_itself_only_when_work_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Short work prints nothing; long work says how far it is, and cleans up."""
    with Spinner() as spinner:
        spinner.update("gelu", 1)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("surgeon.cli.progress.DELAY", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Spinner() as spinner:
        spinner.update("gelu", 128)
        spinner.wait()
        spinner.update("gelu", 192)
    captured = capsys.readouterr()
    assert "gelu: 192 rewrites so far" in captured.err
    assert captured.out == ""


def test_the_spinner_counts_what_it_is_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proofs of a rule are no rewrites."""
    monkeypatch.setattr("surgeon.cli.progress.DELAY", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Spinner("proof") as spinner:
        spinner.wait()
        spinner.update("gelu", 3)
    assert "gelu: 3 proofs so far" in capsys.readouterr().err


def test_the_spinner_shows_a_phase_at_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Phases are not counted in rewrites, and are not thinned out."""
    monkeypatch.setattr("surgeon.cli.progress.DELAY", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    for phase, words in (
        ("prove", "proving 1,001 sites"),
        ("check", "checking what was written"),
        ("bisect", "looking for the sites at fault among 1,001 sites"),
    ):
        with Spinner() as spinner:
            spinner.wait()
            spinner.update(phase, 1001)
        captured = capsys.readouterr().err
        assert words in captured
        assert "rewrites so far" not in captured


WRONG = """
from surgeon import Graph, Tensor, rule


@rule(patterns=[lambda g, x: g.relu(g.neg(x))])
def wrong(g: Graph, x: Tensor) -> Tensor:
    return g.abs(x)


@rule(patterns=[lambda g, x: g.abs(g.neg(x))])
def chained(g: Graph, x: Tensor) -> Tensor:
    return g.abs(x)
"""


def wrong_sites(folder: Path) -> tuple[Path, str]:
    """Twenty places of a rule that is wrong, all but two of them alike, and the rules."""
    body = "".join(f"n{place} = Neg(x) r{place} = Relu(n{place}) " for place in range(18))
    both = "m = Neg(x) n = Neg(m) r = Relu(n) s = Sin(x) a = Neg(s) b = Relu(a) p = Exp(x) q = Neg(p) t = Abs(q)"
    added = ", ".join([*(f"r{place}" for place in range(18)), "r", "b", "t"])
    path = save(folder, f"{body} {both} y = Sum({added})", constants="")
    (folder / "rules.py").write_text(WRONG)
    return path, str(folder / "rules.py")


def test_sites_that_were_rolled_back_are_counted_and_reported_by_reason(tmp_path: Path) -> None:
    """By rule in the table; below it, once for all that failed in the same way under other names."""
    report = rolled_back(*wrong_sites(tmp_path))
    text = text_of(report, verbose=True)
    assert "not rewritten" not in text  # the rule came nearer than near
    lines = text.splitlines()
    assert lines[1].split() == ["rule", "times", "rolled", "back", "where"]
    assert next(words for words in table(report) if words[0] == "wrong")[1:3] == ["0", "20"]
    shown = lines[lines.index("rolled back") + 1 : lines.index("sites")]
    assert any(line.startswith("  wrong at /r0/Relu and ") and "more like it: " in line for line in shown)
    assert sum(line.startswith("  wrong at ") for line in shown) <= 3
    assert rows(report, "FAILED") == ["20 of 21 sites failed their proof and were rolled back, 1 proved"]
    undone, *_ = rows(report, "undone")
    assert re.match(r"wrong at \S+ and 18 more: .* instead of ", undone)


def test_a_rule_that_chained_is_counted_where_it_wrote(tmp_path: Path) -> None:
    """The table agrees with the counts of the report."""
    (tmp_path / "rules.py").write_text(WRONG)
    path = save(tmp_path, "m = Neg(x) n = Neg(m) s = Relu(n) y = Sin(s)", constants="")
    report = rewrite(path, f"{tmp_path / 'rules.py'}", dry_run=True)[1]
    assert {words[0]: int(words[1]) for words in table(report)} == report.counts == {"wrong": 1, "chained": 1}


def test_a_proof_that_holds_only_in_its_context_is_reported(tmp_path: Path) -> None:
    """Proved, but not for every input: the reader is to know."""
    report = rolled_back(gelus(tmp_path), "gelu")
    note = "equal for all values that the 3 preceding nodes can produce, but not for arbitrary inputs"
    for site in report.sites:
        site.proof = replace(site.proof, reason=note)
    assert "\nPROVED   2 of 2 sites; " in text_of(report)
    assert rows(report, "note") == [f"gelu (2): {note}"]
    text = text_of(report, verbose=True)
    assert "proved, with a note\n  gelu at /h1/Mul and 1 more like it: equal for all values that the 3 " in text


def test_no_limit_of_a_proof_is_cut(tmp_path: Path) -> None:
    """Ten notes and ten reasons have ten rows each; a size that the user fixed and a name without a node have one."""
    report = rolled_back(gelus(tmp_path, count=20), "gelu", options=CheckOptions(dims={"n": 3}))
    for place, site in enumerate(report.sites):
        outcome = Outcome.UNPROVED if place % 2 else Outcome.PROVED
        site.proof = replace(site.proof, outcome=outcome, reason=f"reason {place // 2}")
    report.unused = {"zzz*": ""}
    reasons = [f"gelu (1): reason {place}" for place in range(10)]
    assert rows(report, "note") == [*reasons, "proved only for n = 3 (--dim)"]
    assert [row.partition(": ")[2] for row in rows(report, "why")] == [f"reason {place}" for place in range(10)]
    assert "'zzz*'" in rows(report, "warning")[0]


def test_sizes_of_a_proof_are_noted_only_if_something_ran(tmp_path: Path) -> None:
    """The word is proved if a site is, and checked if none is."""
    report = rolled_back(gelus(tmp_path), "gelu", options=CheckOptions(dims={"n": 3}))
    assert rows(report, "note") == ["proved only for n = 3 (--dim)"]
    for site in report.sites:
        site.proof = replace(site.proof, outcome=Outcome.UNPROVED)
    assert rows(report, "note") == ["checked only with n = 3 (--dim)"]
    for site in report.sites:
        site.proof = None
    assert rows(report, "note") == []


def test_what_was_not_written_is_not_called_so(tmp_path: Path) -> None:
    """A site is unproved, and the report is of a rewrite that wrote nothing."""
    report = rolled_back(gelus(tmp_path), f"{rule_file(tmp_path)}:unknown", check="both")
    for site in report.sites:
        site.proof = replace(site.proof, outcome=Outcome.UNPROVED, reason="nobody knows")
    section = "\nwritten, but unproved\n  unknown at /h1/Mul and 1 more like it: nobody knows\n"
    assert section in text_of(report, verbose=True)
    assert rows(report, "why") == ["unknown at /h1/Mul and 1 more: nobody knows"]
    report.written = False
    assert "\nunproved\n  unknown at" in text_of(report, verbose=True)


def test_whole_models_have_their_own_words(tmp_path: Path) -> None:
    """What was compared, and what came of it; nothing of a check that was not asked for."""
    report = rolled_back(gelus(tmp_path), "gelu", check="model")
    assert rows(report, "PROVED")[0].startswith("whole model proved on ")
    report = rolled_back(gelus(tmp_path), f"{rule_file(tmp_path)}:wrong", check="model")
    assert rows(report, "FAILED")[0].startswith("2 of 2 sites were rolled back")
    assert rows(report, "undone")[0].startswith(
        "wrong at /h1/Mul and 1 more: it makes the whole model wrong: Output 'y' differs by"
    )


def test_a_miss_in_json_has_what_a_report_needs_of_a_mismatch() -> None:
    """The fields that programs read, whatever else explaining knows of it; refused matches have the same."""
    near = Mismatch("gelu", "exact", "/n", "why", "gelu.py:10", 4, 5, "value", "1", "2", "make it 1", op="Mul", at="/m")
    report = RewriteReport("", "", "ort", {"gelu": ("gelu",)}, misses=[near])
    [found] = report.to_dict()["misses"]
    place = {"rule": "gelu", "node": "/n", "reason": "why", "where": "gelu.py:10", "matched": 4, "total": 5}
    fields = {"kind": "value", "op": "Mul", "change": "make it 1", "opset": 0, "near": False, "others": []}
    assert found == place | fields


MERGED = """
from surgeon import Graph, Tensor, rule


@rule(patterns=[lambda g, x: g.neg(g.abs(g.abs(g.abs(x))))])
def most(g: Graph, x: Tensor) -> Tensor:
    return g.neg(g.abs(x))


@rule(patterns=[lambda g, x: g.relu(g.neg(x))])
def last(g: Graph, x: Tensor) -> Tensor:
    return g.max(g.mul(x, -1.0), 0.0)


@rule(patterns=[lambda g, x: g.relu(g.neg(x))])
def wrong(g: Graph, x: Tensor) -> Tensor:
    return g.abs(x)
"""
CHAIN = "a = Abs(x) b = Abs(a) c = Abs(b) d = Neg(c) e = Relu(d) y = Sin(e)"


def merged(tmp_path: Path, rules: str) -> RewriteReport:
    """A place that two rules made together, of which the first took four nodes of the source and the second one."""
    (tmp_path / "rules.py").write_text(MERGED)
    path = save(tmp_path, CHAIN, constants="")
    names = [f"{tmp_path / 'rules.py'}:{name}" for name in rules.split()]
    return rewrite(path, names, output=tmp_path / "out.onnx", keep_going=True)[1]


def test_a_merged_place_is_named_by_the_rule_that_made_most_of_it(tmp_path: Path) -> None:
    """In the report and its JSON; all that had a part are listed."""
    (site,) = merged(tmp_path, "most last").sites
    assert (site.rules, site.outcome) == (("most", "last"), "proved")
    assert site.rule == "most"
    assert (site.to_dict()["rule"], site.to_dict()["rules"]) == ("most", ["most", "last"])


def test_a_merged_place_that_fails_is_named_by_the_rule_at_fault(tmp_path: Path) -> None:
    """The one that wrote what differs, though the other made more of it."""
    report = merged(tmp_path, "most wrong")
    (site,) = report.rolled_back
    assert (site.rules, site.rule) == (("most", "wrong"), "wrong")
    assert "\n  wrong (with most) at " in text_of(report, verbose=True)


def test_initializers_that_are_shared_are_sites_by_the_name_of_their_rule(tmp_path: Path) -> None:
    """Their proof compares bytes; the details say so."""
    body = f"{EXACT.format(i='', x='x', y='g')} s = Add(g, w1) t = Mul(s, w2) y = Sub(t, w3)"
    path = save(tmp_path, body, constants=f"{CONSTANTS}, float w1 = {{7}}, float w2 = {{7}}, float w3 = {{7}}")
    both = rolled_back(path, "duplicate_initializers,gelu:gelu")
    assert "\n  gelu 1 · duplicate_initializers 2\nPROVED   3 of 3 sites; " in text_of(both)
    assert "by a comparison of all bytes" in text_of(both, verbose=True)
    alone = rolled_back(path, "duplicate_initializers")
    assert [site.is_shared for site in alone.sites] == [True, True]
    assert "\n  duplicate_initializers 2\nPROVED   2 of 2 sites" in text_of(alone)


def test_constants_among_the_nodes_are_said(tmp_path: Path) -> None:
    """Before and after, over all scopes; where there are none, nothing is."""
    body = EXACT.format(i="", x="x", y="y").replace("one)", "c)").replace("half", "h")
    path = save(tmp_path, f"c = Constant <value = float {{1}}> () h = Constant <value = float {{0.5}}> () {body}")
    report = report_of(path)
    assert (report.nodes_before, report.nodes_after, report.constants) == (7, 1, (2, 0))
    assert "7 → 1 nodes\n" in text_of(report)
    assert "  Constants  2 → 0\n" in text_of(report, verbose=True)
    assert report.to_dict()["constants"] == [2, 0]
    assert "Constants" not in text_of(report_of(gelus(tmp_path)), verbose=True)


def test_there_is_one_way_to_say_how_many_more() -> None:
    """No list ends in another word; only what is drawn has room for nothing but dots."""
    for path in sorted((ROOT / "surgeon").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if path.name != "text.py":
            assert not re.search(r"and \{[^}]*\} (more|others)|\"and \{[^}]*\} more", text), path


@pytest.mark.parametrize(
    ("names", "most", "count", "text"),
    [("abc", 3, None, "a, b, c"), ("abcd", 2, None, "a, b and 2 more"), ("ab", 2, 1302, "a, b and 1,300 more")],
)
def test_a_list_reports_the_first_and_how_many_more(names: str, most: int, count: int | None, text: str) -> None:
    """Whatever it is a list of."""
    assert join_first(list(names), most, count) == text
    assert and_more(2, "rules") == " and 2 more rules"
    assert and_more(0, "rules") == ""


def test_what_a_rule_replaced_in_turn_counts_for_it(tmp_path: Path) -> None:
    """The first took all nodes of the source, and nothing of what it wrote stands: what stands is the second's."""
    (tmp_path / "rules.py").write_text(MERGED.replace("g.neg(g.abs(x))\n", "g.neg(x)\n"))
    path = save(tmp_path, CHAIN, constants="")
    names = [f"{tmp_path / 'rules.py'}:{name}" for name in ("most", "last")]
    (site,) = rewrite(path, names, dry_run=True)[1].sites
    assert (site.rules, site.rule) == (("most", "last"), "last")
