"""What people read: narrow terminals, long names, many sites and misses."""

import io
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from surgeon import rewrite
from surgeon.console.progress import Spinner
from surgeon.console.report import diff_lines, miss_text, node_line, print_report
from surgeon.rewriting.result import Miss, NodeInfo, Report
from tests.command_line import gelus, rule_file, save


def text_of(report: Report, **settings: bool) -> str:
    """The report as printed where there is no terminal."""
    stream = io.StringIO()
    print_report(report, stream, **settings)
    return stream.getvalue()


def report_of(path: Path, rules: str = "gelu", **settings: object) -> Report:
    """The report of a dry run."""
    return rewrite(path, rules, dry_run=True, **settings)[1]


def test_many_sites_are_counted_and_the_first_named(tmp_path: Path) -> None:
    """Two names, and how many more."""
    text = text_of(report_of(gelus(tmp_path, count=1200)), written=False)
    assert "1,200" in text
    assert "main graph: /h1/Mul, /h2/Mul and 1,198 more" in text
    assert "nodes    6,000 -> 1,200" in text


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
    assert "then_branch of /y/If: a" in text_of(report)
    assert "(then_branch of /y/If) @@" in next(diff_lines(report.sites))


@pytest.mark.parametrize("columns", ["30", "80", "200"])
def test_no_name_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    """Whatever the width, every character of a long node name is printed."""
    name = "/very/long/" + "name" * 60
    report = report_of(gelus(tmp_path, count=1))
    report.sites[0].steps[0].root = SimpleNamespace(original=True, label=name)
    report.misses = [Miss("gelu", name, "wanted Erf, found Tanh", "gelu.py:9", 4)]
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal, which alone has a width
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = click.unstyle(text_of(report))
    assert all(len(line) <= int(columns) for line in text.partition("not rewritten")[0].splitlines())
    assert "…" not in text
    table, _, rest = text.partition("not rewritten")
    assert "".join(table.split()).count("".join(name)) == 1
    assert f"  gelu at {name}: wanted Erf, found Tanh (gelu.py:9); 4 nodes matched" in rest.splitlines()


def test_names_that_look_like_markup_stay_as_they_are(tmp_path: Path) -> None:
    """rich must not take a bracket in a name for a style."""
    report = report_of(gelus(tmp_path, count=1))
    report.sites[0].steps[0].root = SimpleNamespace(original=True, label="/a[bold]:smile:/Mul")
    report.misses = [Miss("gelu", "[red]x", "[/red] is odd", "gelu.py:9", 1)]
    text = text_of(report)
    assert "/a[bold]:smile:/Mul" in text
    assert "gelu at [red]x: [/red] is odd" in text


def test_misses_that_name_a_node_come_first_and_many_are_summed_up(tmp_path: Path) -> None:
    """Twenty lines, then how many more."""
    report = report_of(gelus(tmp_path))
    report.misses = [Miss("quick_gelu", "", "there is no Sigmoid", "gelu.py:61", 0)]
    report.misses += [Miss("gelu", f"/n{place}", "why", "gelu.py:9", 1) for place in range(30)]
    lines = text_of(report).splitlines()
    start = lines.index("not rewritten")
    assert lines[start + 1] == "  gelu at /n0: why (gelu.py:9); 1 node matched"
    assert lines[start + 21] == "  and 11 more (--report has them all)"


def test_a_node_is_told_with_its_attributes() -> None:
    """An input that is left out keeps its comma; no attributes, no comma."""
    node = NodeInfo("n", "com.microsoft::QuickGelu", ("x",), ("y",), "alpha=1.702")
    assert node_line(node) == "y = com.microsoft::QuickGelu(x, alpha=1.702)  # n"
    assert node_line(NodeInfo("n", "Clip", ("x", "", "h"), ("y",), "")) == "y = Clip(x, , h)  # n"


def test_a_miss_without_a_node_is_one_clause() -> None:
    """No "at", no count."""
    miss = Miss("gelu", "", "there is no Erf in the model", "gelu.py:9", 0)
    assert miss_text(miss) == "  gelu: there is no Erf in the model (gelu.py:9)"


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
    rows = {line.split()[0]: line.split()[1] for line in text_of(report).splitlines()[1:5]}
    assert rows == {"gelu": "2", "gelu_tanh": "0", "quick_gelu": "0", "refusing": "0"}


def test_the_spinner_shows_itself_only_when_work_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Short work prints nothing; long work says how far it is, and cleans up."""
    with Spinner() as spinner:
        spinner.update("gelu", 1)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("surgeon.console.progress.DELAY", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Spinner() as spinner:
        spinner.update("gelu", 128)
        spinner.wait()
        spinner.update("gelu", 192)
    captured = capsys.readouterr()
    assert "rewrites so far" in captured.err
    assert captured.out == ""
