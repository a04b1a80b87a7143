"""The driver of transforms: what it opens, writes and undoes, and transforms that are not of the engine."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import surgeon
from surgeon import Graph, Tensor, rule
from surgeon.edits import Rename, StripDoc
from surgeon.file.editable_model import EditableModel
from surgeon.file.external_data.self_reference import self_referencing_model
from surgeon.file.model import Model
from surgeon.file.save import saving
from surgeon.ir.index_patch import index_patch
from surgeon.pipeline import driver
from surgeon.pipeline.checks import Checks, Saving
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit_group import edit_groups
from surgeon.pipeline.rewriting.rule_run import open_index
from surgeon.pipeline.rewriting.rule_set import RuleSet, RuleTransform
from surgeon.proof.check_options import CheckOptions
from surgeon.proof.check_result import CheckResult, Outcome
from surgeon.proof.model.load_check import LoadAnswer, loading
from surgeon.rules.catalogue import resolve
from surgeon.testing import parse
from tests.command_line import files_in
from tests.outside.transform import Scale
from tests.test_recipes import convolution

MODEL = Path(__file__).resolve().parents[1] / "notebooks" / "models" / "tiny_distilbert.onnx"
RELUS = """(float[n] x) => (float[n] y, float[n] z) { a = Relu(x) y = Relu(a) b = Neg(x) z = Neg(b) }"""


@rule(patterns=[lambda g, x: g.relu(g.relu(x))])
def relu_once(g: Graph, x: Tensor) -> Tensor:
    """Right."""
    return g.relu(x)


@rule(patterns=[lambda g, x: g.neg(g.neg(x))])
def not_once(g: Graph, x: Tensor) -> Tensor:
    """Wrong."""
    return g.neg(x)


@pytest.fixture
def opened(monkeypatch):
    """The paths of the models that are opened, and of those that are written."""
    found: dict[str, list[str]] = {"opened": [], "written": []}
    real_open, real_enter = Model.open.__func__, saving

    def counted(cls, source, **settings):
        if isinstance(source, Path):
            found["opened"].append(source.name)
        return real_open(cls, source, **settings)

    def written(model, patch, out, **settings):
        found["written"].append(Path(out).name)
        return real_enter(model, patch, out, **settings)

    monkeypatch.setattr(Model, "open", classmethod(counted))
    monkeypatch.setattr(driver, "saving_model", written)
    monkeypatch.setattr("surgeon.file.save.saving", written)
    return found


def chain():
    return [*edit_groups([Rename("input_ids", "tokens")]), RuleSet("gelu"), *edit_groups([Rename("logits", "y")])]


@pytest.mark.parametrize("check", ["auto", "none"])
def test_a_chain_opens_its_source_once(tmp_path, opened, check):
    """Without proofs it writes one file; the rules' sites are proved from the source too."""
    out = tmp_path / "out.onnx"
    checks = Checks.named(check, ("auto", "none"), False, None)
    made, report = driver.run(MODEL, chain(), checks, Saving(out))
    assert made == out
    assert opened["opened"].count(MODEL.name) == 1
    assert opened["written"] == ["out.onnx"]
    assert [step.outcome for step in report.steps] == ["proved", "proved" if check == "auto" else "unchecked", "proved"]
    assert report.steps[1].counts["gelu"] == 4
    assert surgeon.compare(out, chained_by_hand(tmp_path)).proved
    assert onnx.load(out) == onnx.load(tmp_path / "third.onnx")


def chained_by_hand(folder):
    first, second, third = (folder / f"{name}.onnx" for name in ("first", "second", "third"))
    surgeon.edit(MODEL, Rename("input_ids", "tokens"), output=first)
    surgeon.rewrite(first, "gelu", output=second)
    surgeon.edit(second, Rename("logits", "y"), output=third)
    return third


def test_a_rule_that_fails_between_two_edits_is_rolled_back_alone():
    """The rest is what comes of the chain without it."""
    edits = [*edit_groups([Rename("x", "v")])], [*edit_groups([StripDoc(), Rename("y", "w")])]
    made, report = driver.run(parse(RELUS), [*edits[0], RuleSet([relu_once, not_once]), *edits[1]])
    assert [site.rule for site in report.steps[1].rolled_back] == ["not_once"]
    assert [site.outcome for site in report.steps[1].sites] == ["proved"]
    assert (report.outcome, report.sites, report.rolled_back) == ("failed", *sites_of(report.steps[1]))
    assert [done.edit.flag for done in report.edits] == ["rename", "strip-doc", "rename"]
    assert report.counts == {"relu_once": 1}
    assert report.nodes == (report.steps[0].nodes[0], report.steps[2].nodes[1])
    assert report.duration == pytest.approx(sum(step.duration for step in report.steps))
    first, _ = surgeon.edit(parse(RELUS), Rename("x", "v"))
    second, _ = surgeon.rewrite(first, relu_once)
    third, _ = surgeon.edit(second, [StripDoc(), Rename("y", "w")])
    assert made == third


def sites_of(report):
    return report.sites, report.rolled_back


def test_a_conversion_is_unproved_if_the_rules_before_it_are():
    """The outcome of a report is the worst of all its steps."""
    found = CheckResult(Outcome.UNPROVED, "Nothing runs it.", (), seconds=0.0, runs=0, tolerance={})
    rules = surgeon.RewriteReport("", "", "ort", {}, check=found)
    report = surgeon.ConvertReport("", "", ("float32", "float16"), 3, error=0.001, max_error=0.01, steps=[rules])
    assert (report.own_outcome, report.outcome, report.proved) == ("proved", "unproved", False)
    assert report.doubts == ["Nothing runs it."]


def test_a_conversion_refuses_a_model_of_which_sites_were_rolled_back():
    with pytest.raises(surgeon.CheckFailed, match="1 of 2 sites was rolled back") as failed:
        surgeon.convert(parse(RELUS), rules=[relu_once, not_once])
    assert [site.rule for site in failed.value.report.rolled_back] == ["not_once"]


def test_inputs_of_the_user_follow_renamed_inputs_through_rules(tmp_path):
    """A recipe of rules takes inputs too."""
    np.savez(tmp_path / "mine.npz", x=np.array([-1.0, 2.0], np.float32))
    (tmp_path / "r.py").write_text(
        "from surgeon import Graph, Tensor, rule\n\n\n@rule(patterns=[lambda g, x: g.relu(g.relu(x))])\n"
        'def relu_pairs(g: Graph, x: Tensor) -> Tensor:\n    """Right."""\n    return g.relu(x)\n'
    )
    steps = [Rename("x", "v"), surgeon.Rules(str(tmp_path / "r.py")), surgeon.edits.AppendSigmoid("z")]
    options = surgeon.CheckOptions(inputs=[tmp_path / "mine.npz"])
    made, report = surgeon.run(surgeon.Recipe(steps), parse(RELUS), options=options)
    assert report.outcome == "proved"
    assert [value.name for value in made.graph.input] == ["v"]


@pytest.mark.parametrize("names", ["gelu", "ort"])
def test_changes_of_an_index_are_the_same_in_the_file_and_in_a_skeleton(names):
    with Model.open(MODEL) as model:
        run = RuleTransform(RuleSet(names), resolve(names)).run_over(model, Checks())
        assert run.run.sites
        draft = ModelDraft(model)
        draft.rewritten = run.run.index
        direct = index_patch(run.run.index).to_proto()
        assert EditableModel.patch(draft).to_proto() == direct
        again = ModelDraft(draft)
        open_index(again)
        assert again.patch().to_proto() == direct


def test_a_tensor_that_was_converted_is_read_in_its_new_dtype():
    """So that rules can run behind a conversion without a file between."""
    weights = np.linspace(-3, 3, 4000, dtype=np.float32)
    model = parse("(float[4000] x) => (float[4000] y) { y = Add(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    with Model.open(model) as source:
        draft = ModelDraft(source)
        [tensor] = draft.graph.initializer
        change = draft.recast(tensor, onnx.TensorProto.FLOAT16)
        behind = ModelDraft(draft)
        np.testing.assert_array_equal(behind.value(behind.graph.initializer[0]), weights.astype(np.float16))
        assert change.seen.count == 0


def test_a_transform_of_another_package(tmp_path):
    """It is proved, written once, and reported; a wrong one writes nothing."""
    onnx.save(parse("(float[4] x) => (float[4] y) { a = Relu(x) b = Relu(a) y = Neg(b) }"), tmp_path / "in.onnx")
    out = tmp_path / "out.onnx"
    steps = [RuleSet([relu_once]), Scale("y")]
    made, report = driver.run(tmp_path / "in.onnx", steps, Checks(), Saving(out))
    assert made == out
    assert [step.outcome for step in report.steps] == ["proved", "proved"]
    assert [node.op_type for node in onnx.load(out).graph.node] == ["Relu", "Neg", "Mul"]
    assert report.steps[1].to_dict()["edits"] == [
        {"edit": "scale", "output": "y", "factor": 2.0, "said": ["'y' is scaled by 2"]}
    ]
    out.unlink()
    with pytest.raises(surgeon.CheckFailed, match="The scaled model differs from the original: 'y' is not 2 times"):
        driver.run(tmp_path / "in.onnx", [RuleSet([relu_once]), Scale("y", 3.0)], Checks(), Saving(out))
    with pytest.raises(surgeon.UsageError, match="factor of 1") as refused:
        driver.run(tmp_path / "in.onnx", [RuleSet([relu_once]), Scale("y", 1.0)], Checks(), Saving(out))
    assert refused.value.step == 1
    assert files_in(tmp_path) == {"in.onnx"}


def test_rules_edits_and_a_conversion_are_one_run(tmp_path, opened):
    """The result is that of three runs; the source is opened once by the driver, and nothing is left between."""
    from surgeon.precision.conversion import Convert
    from surgeon.precision.convert_report import ConvertReport
    from surgeon.precision.planning.node_dtypes import DtypeChange

    change, out = DtypeChange(onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16), tmp_path / "out.onnx"
    conversion = Convert(change=change, report=ConvertReport("", "", change.names, max_error=1e-2))
    _, report = driver.run(MODEL, [*chain(), conversion], Checks(), Saving(out))
    assert [step.outcome for step in report.steps] == ["proved"] * 4
    assert opened["opened"].count(MODEL.name) == 1
    assert files_in(tmp_path) == {"out.onnx"}
    surgeon.convert(chained_by_hand(tmp_path), output=tmp_path / "fourth.onnx")
    assert onnx.load(out) == onnx.load(tmp_path / "fourth.onnx")


def test_new_weights_of_a_model_between_are_not_left(tmp_path):
    """A runtime asks for the model behind the rules, whose new weights are in a file because the source's are."""
    source = convolution(tmp_path)
    before = files_in(tmp_path)
    steps = [surgeon.Rules("conv_batch_norm"), surgeon.edits.AppendSigmoid("y")]
    _, report = surgeon.run(surgeon.Recipe(steps), source, tmp_path / "out.onnx")
    assert (report.outcome, report.counts) == ("proved", {"conv_batch_norm": 1})
    assert files_in(tmp_path) - before == {"out.onnx", "out.onnx.data"}


def test_large_new_weights_are_kept_once(tmp_path):
    """Drafts behind the rules that made them do not copy them, and write them as the rules alone do."""
    weights = np.random.default_rng(0).standard_normal((600, 600), dtype=np.float32)
    scale = np.linspace(1, 2, 600, dtype=np.float32)
    model = parse("(float[n,600] x) => (float[n,600] z) { y = MatMul(x, w) z = Mul(y, s) }")
    model.graph.initializer.extend([numpy_helper.from_array(weights, "w"), numpy_helper.from_array(scale, "s")])
    onnx.save(model, tmp_path / "in.onnx")
    with Model.open(tmp_path / "in.onnx") as source:
        run = RuleTransform(RuleSet("matmul_scale"), resolve("matmul_scale")).run_over(source, Checks())
        draft = ModelDraft(source)
        draft.rewritten = run.run.index
        first = ModelDraft(draft)  # before anything reads the skeleton of the draft
        first.graph.doc_string = "changed"
        last = ModelDraft(first)
        assert last.skeleton.ByteSize() < 1000
        held = [one.value(one.graph.initializer[0]) for one in (draft, first, last)]
        assert np.shares_memory(held[0], held[2])
        for one in held:
            np.testing.assert_array_equal(one, weights * scale)
        direct = index_patch(run.run.index).to_proto()
        assert draft.patch().to_proto() == direct
        assert EditableModel.patch(draft).to_proto() == direct
        direct.graph.doc_string = "changed"
        assert last.patch().to_proto() == direct
        light = self_referencing_model(last)
        assert light is not None
        assert light.ByteSize() < 1000  # it loads with other bytes of the file in their place
        assert loading([tmp_path / "in.onnx"], light, CheckOptions(), folder=tmp_path) == LoadAnswer()


def test_data_that_do_not_fit_a_new_tensor_stay_in_it():
    """So that the checker of the result sees them."""
    draft = ModelDraft(Model.open(parse("(float[n] x) => (float[n] y) { y = Neg(x) }")))
    short = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[1 << 19], raw_data=bytes(1 << 20))
    words = onnx.TensorProto(name="w", data_type=onnx.TensorProto.STRING, dims=[1], raw_data=bytes(1 << 20))
    right = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[1 << 18], raw_data=bytes(1 << 20))
    assert draft.without_data(short) is short
    assert draft.without_data(words) is words
    assert draft.without_data(right).ByteSize() < 100
