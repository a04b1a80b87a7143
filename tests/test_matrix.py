"""Every operation that torch ran is found in what its exporters wrote, in every form, and no decoy is.

The forms and the columns are in `tests.matrix`; here stands a test for each family in a column, by default for a sample
of them.  `python -m tests.matrix --table` measures all of them, the peers beside us.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest

import surgeon
from tests import sampling
from tests.matrix import operations, peers, sample
from tests.matrix.cases import DTYPES, OPSETS, Column, Export, columns, family
from tests.matrix.measure import OURS, Cell, judge, measure
from tests.matrix.modules import FAMILIES, by_name
from tests.matrix.table import Matrix, Row, fault_of, lines

CHOSEN = sampling.chosen(sample.chosen, sample.every)


@dataclass(frozen=True)
class Rewritten:
    """One export, our output, and what the judge says of it."""

    export: Export
    output: Path
    cell: Cell


@pytest.fixture(scope="module", params=CHOSEN, ids=lambda part: part.name)
def rewritten(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Rewritten]:
    """The exports of a part of the matrix, those that the exporter wrote, rewritten by the whole group of rules."""
    folder = tmp_path_factory.mktemp("matrix")
    found = []
    for export in request.param.exports():
        if export.path is not None:
            output = folder / export.path.name
            found.append(Rewritten(export, output, measure(OURS, export, output)))
    return found


def test_every_site_is_done_and_proved_and_no_decoy_is_touched(rewritten: list[Rewritten]) -> None:
    """As many ops as torch ran, each rewritten site proved on its own, and the outputs those of the original."""
    assert rewritten
    faults = {each.export.name: fault_of(each.cell) for each in rewritten}
    assert not {name: fault for name, fault in faults.items() if fault}


def test_what_the_exporter_broke_is_reported_apart(rewritten: list[Rewritten]) -> None:
    """A model that ONNX Runtime does not open counts for nothing, and nothing else is excused so."""
    for each in rewritten:
        assert (each.cell.state == "original") == bool(peers.opens(each.export.path)), each.export.name


def test_a_second_rewrite_changes_nothing(rewritten: list[Rewritten], tmp_path: Path) -> None:
    """Rewriting the output again finds no site and writes the same bytes."""
    again = tmp_path / "again.onnx"
    for each in rewritten:
        _, report = surgeon.rewrite(each.output, operations.rules(), output=again, check="none")
        assert not report.sites, each.export.name
        assert again.read_bytes() == each.output.read_bytes(), each.export.name


@pytest.mark.parametrize("name", FAMILIES)
def test_forms_run_as_many_operations_as_they_say(name: str) -> None:
    """The sites that a form declares are those that torch runs, in both dtypes."""
    from tests.matrix import torch_export

    for form in FAMILIES[name]:
        for dtype in DTYPES:
            assert torch_export.count(form, dtype) == dict(form.sites), (form.name, dtype)


def test_truth_counts_modules_functions_and_calls_once_each() -> None:
    """nn.LayerNorm calls F.layer_norm and is one; a shared module counts as often as it runs; a function as called."""
    import torch
    from torch import nn

    from tests import truth

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.act = nn.LayerNorm(4), nn.GELU("tanh")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.act(self.norm(self.norm(x)))
            return nn.functional.normalize(nn.functional.gelu(nn.functional.silu(y)), p=1.0)

    ran = truth.count(Block(), (torch.ones(2, 4),))
    assert ran == {"layer_norm": 2, "gelu_tanh": 1, "gelu": 1, "silu": 1}


def test_truth_leaves_no_hook_behind() -> None:
    """Counting changes nothing in the module, also where the module raises."""
    import torch
    from torch import nn

    from tests import truth

    module = nn.Sequential(nn.LayerNorm(4), nn.Linear(3, 3))
    with pytest.raises(RuntimeError):
        truth.count(module, (torch.ones(2, 4),))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


def test_every_operation_has_forms_and_ops() -> None:
    """Nothing of the table of ops is left untested, and no form is of an operation without an op."""
    tested = {kind for form in by_name().values() for kind in form.sites}
    assert tested == set(operations.OPERATIONS)


def test_the_sample_holds_a_third_of_the_forms_and_every_exporter_opset_and_dtype() -> None:
    """No form twice, some of each family, and no value of the others is left out."""
    forms = [form.name for part in sample.chosen() for form in FAMILIES[part.family][part.start :: part.step]]
    assert len(set(forms)) == len(forms) >= len(by_name()) / 3
    assert set(forms) < set(by_name())
    assert {part.family for part in sample.chosen()} == set(FAMILIES)
    kept = {part.column for part in sample.chosen()}
    assert {(column.exporter, column.opset) for column in kept} == {
        (e, o) for e, opsets in OPSETS.items() for o in opsets
    }
    assert {(column.exporter, column.dtype) for column in kept} == {
        (column.exporter, column.dtype) for column in columns()
    }


def one_export(name: str) -> Export:
    """A GELU of the column that the tests of the judge use."""
    return next(export for export in family("gelus", Column("ts", 17, "fp32")) if export.form == name)


def test_the_judge_counts_nothing_as_done_in_a_copy_of_the_original(tmp_path: Path) -> None:
    """A tool that does nothing has no site and no fault of its own."""
    export, copy = one_export("gelu.nn"), tmp_path / "copy.onnx"
    copy.write_bytes(export.path.read_bytes())
    assert judge(export, copy, "", "") == Cell("gelu.nn", 0, 1, 0, "ok")


def test_the_judge_calls_other_numbers_broken(tmp_path: Path) -> None:
    """A model with the op wanted and other numbers is broken, and has no site."""
    export, wrong = one_export("gelu.nn"), tmp_path / "wrong.onnx"
    model = onnx.load(surgeon.rewrite(export.path, "gelu:gelu", output=wrong)[0])
    (fused,) = [node for node in model.graph.node if node.op_type == "Gelu"]
    fused.op_type = "FastGelu"
    model.graph.node.insert(0, onnx.helper.make_node("Gelu", [fused.input[0]], ["aside"], domain="com.microsoft"))
    onnx.save(model, wrong)
    found = judge(export, wrong, "", "")
    assert (found.done, found.state) == (0, "broken")


def test_the_judge_calls_a_missing_file_broken(tmp_path: Path) -> None:
    """A tool that writes nothing is broken."""
    assert judge(one_export("gelu.nn"), tmp_path / "none.onnx", "", "crashed").state == "broken"


def cell(form: str, done: int, state: str = "ok", outcome: str = "proved") -> Cell:
    """A cell with one site wanted, none where the form is a decoy."""
    return Cell(form, done, int(not form.startswith("decoy.")), 0, state, outcome, "why")


def test_the_table_adds_up_and_says_what_is_not_full() -> None:
    """Sites over all forms, broken models and decoys of each tool, and our own faults by name."""
    found = Matrix(faults=["gelu.b-ts17-fp32: 0 of 1 sites"])
    for form, ours, theirs in (
        ("gelu.a", cell("gelu.a", 1), cell("gelu.a", 0, "broken")),
        ("gelu.b", cell("gelu.b", 0, outcome="unchanged"), cell("gelu.b", 1)),
        ("decoy.c", cell("decoy.c", 0, outcome="unchanged"), cell("decoy.c", 0, "extra")),
        ("silu.d", cell("silu.d", 0, "original", "unproved"), cell("silu.d", 0, "original")),
    ):
        row = found.rows.setdefault(form, Row())
        row.cells[OURS].append(ours)
        row.cells["ORT Python"].append(theirs)
    text = list(lines(found, "Title"))
    assert "| **gelu** | 1/2 | 1/2, 1 broken | 1/1 |" in text
    assert "| **all** | 1/2 | 1/2, 1 broken | 1/1 |" in text
    assert "| decoys | 1 of 1 right | 0 of 1 right, 1 extra |" in text
    assert "Exports that ONNX Runtime does not run as the exporter wrote them, not counted above: 1." in text
    assert "- gelu.b-ts17-fp32: 0 of 1 sites" in text


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (cell("gelu.a", 1), ""),
        (cell("gelu.a", 0), "0 of 1 sites; why"),
        (cell("gelu.a", 1, outcome="unproved"), "unproved: why"),
        (cell("decoy.c", 0, "extra"), "an op too many"),
        (cell("decoy.c", 0, "broken"), "broken: why"),
        (cell("gelu.a", 1, "original", "unproved"), ""),
    ],
)
def test_a_fault_is_a_site_missing_or_not_proved_or_an_op_too_many(found: Cell, fault: str) -> None:
    """What counts as full, and that only an original that does not run excuses a site without proof."""
    assert fault_of(found) == fault


@pytest.mark.parametrize("peer", peers.PEERS)
def test_peers_run(peer: str, tmp_path: Path) -> None:
    """Each peer fuses the GELU that all of them know, and the judge says so."""
    assert measure(peer, one_export("gelu.half_last"), tmp_path / "out.onnx").full


def test_a_peer_that_raises_says_why(tmp_path: Path) -> None:
    """What a peer raises becomes the note of its cell."""
    assert peers.run("ORT Python", tmp_path / "missing.onnx", tmp_path / "out.onnx")
