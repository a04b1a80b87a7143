"""Decoding in steps on padded batches, compared with the original on each sequence by itself."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, helper, numpy_helper

import surgeon
from surgeon.errors import UsageError
from surgeon.proof.model.decoding_check import DecodingCheck
from tests.command_line import run
from tests.decoders.models import decoder


def node(model: ModelProto, op: str, reads: str = "") -> NodeProto:
    return next(one for one in model.graph.node if one.op_type == op and (not reads or reads in one.input))


def change(model: ModelProto, name: str, edit: Callable[[np.ndarray], np.ndarray]) -> None:
    tensor = next(one for one in model.graph.initializer if one.name == name)
    tensor.CopyFrom(numpy_helper.from_array(edit(numpy_helper.to_array(tensor)), name))


def insert(model: ModelProto, *nodes: NodeProto) -> None:
    rest = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*nodes, *rest])


def of_another_scale(model: ModelProto) -> None:
    change(model, "wq1", lambda array: array * np.float32(1.001))


def with_a_later_key(model: ModelProto) -> None:
    """A query sees the next token."""
    model.graph.initializer.append(numpy_helper.from_array(np.array(1, np.int64), "by"))
    greater = node(model, "Greater")
    earlier = helper.make_node("Sub", [greater.input[0], "by"], ["earlier"])
    greater.input[0] = "earlier"
    model.graph.node.insert(list(model.graph.node).index(greater), earlier)


def without_its_own_key(model: ModelProto) -> None:
    node(model, "Greater").op_type = "GreaterOrEqual"


def with_padding_shown(model: ModelProto) -> None:
    """Keys of padding count: only a padded batch shows it."""
    either = node(model, "Or")
    either.input[1] = either.input[0]


def with_the_first_position_for_all(model: ModelProto) -> None:
    insert(model, helper.make_node("Sub", ["position_ids", "position_ids"], ["nowhere"]))
    node(model, "Gather", "wpe").input[1] = "nowhere"


def with_positions_shifted_by_one(model: ModelProto) -> None:
    change(model, "wpe", lambda array: np.roll(array, 1, axis=0))


def with_values_of_the_other_layer(model: ModelProto) -> None:
    change(model, "wv1", lambda array: array[::-1].copy())


def with_other_keys_after_the_prompt(model: ModelProto) -> None:
    """They are larger by a thousandth for each token of the past: only steps show it."""
    turned = node(model, "Transpose", "present.0.key")
    place = list(model.graph.node).index(turned)
    turned.input[0] = "larger"
    by = numpy_helper.from_array(np.array(0.001, np.float32), "by")
    one = numpy_helper.from_array(np.array(1, np.float32), "unit")
    model.graph.initializer.extend([by, one])
    nodes = [
        helper.make_node("Cast", ["past"], ["tokens"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["tokens", "by"], ["more"]),
        helper.make_node("Add", ["more", "unit"], ["factor"]),
        helper.make_node("Mul", ["present.0.key", "factor"], ["larger"]),
    ]
    for made in reversed(nodes):
        model.graph.node.insert(place, made)


FAULTS = (
    of_another_scale,
    with_a_later_key,
    without_its_own_key,
    with_padding_shown,
    with_the_first_position_for_all,
    with_positions_shifted_by_one,
    with_values_of_the_other_layer,
)


def test_a_decoder_equals_itself() -> None:
    """Prompts are as long as its table of positions allows."""
    result = surgeon.compare(decoder(), decoder(), decode=True)
    assert result.proved
    assert result.kinds == ("prompts of 1 to 58 tokens, 6 steps each",)
    assert result.runs == 35  # of five batches: the prompts, and six steps


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: Callable[[ModelProto], None]) -> None:
    other = decoder()
    fault(other)
    result = surgeon.compare(decoder(), other, decode=True)
    assert result.outcome.value == "failed"
    assert "Output 'logits' differs by" in result.reason


def test_the_original_is_run_on_each_sequence_by_itself() -> None:
    """An export that counts padding is wrong for padded batches, and right for each sequence."""
    export = decoder()
    with_padding_shown(export)
    assert surgeon.compare(export, decoder(), decode=True).proved
    assert not surgeon.compare(export, export, decode=True).proved


def test_a_fault_of_the_steps_is_found_there() -> None:
    other = decoder()
    with_other_keys_after_the_prompt(other)
    assert " at step " in surgeon.compare(decoder(), other, decode=True).reason


def test_names_and_order_may_differ() -> None:
    """Caches, too, are found in each graph by itself."""
    other = decoder(order=(1, 0), ids="a", mask="b", positions="c", logits="d", key="before%d", new_key="made%d")
    assert surgeon.compare(decoder(), other, decode=True).proved


def test_scores_of_the_last_token_are_enough() -> None:
    """A graph that scores only one token of a prompt has 1 on that axis."""
    other = decoder()
    last = other.graph.node[-1]
    counts = [
        helper.make_node("ReduceSum", ["attention_mask", "axis"], ["count"], keepdims=0),
        helper.make_node("Shape", ["attention_mask"], ["all"], start=1, end=2),
        helper.make_node("Shape", ["input_ids"], ["asked"], start=1, end=2),
        helper.make_node("Sub", ["all", "asked"], ["before"]),
        helper.make_node("Sub", ["count", "before"], ["valid"]),
        helper.make_node("Sub", ["valid", "axis"], ["index"]),
        helper.make_node("Max", ["index", "least"], ["place"]),  # a step has one row, whatever its padding
        helper.make_node("Unsqueeze", ["place", "axis"], ["chosen"]),
        helper.make_node("GatherND", [last.input[0], "chosen"], ["row"], batch_dims=1),
        helper.make_node("Unsqueeze", ["row", "axis"], ["scored"]),
    ]
    for name, value in (("axis", 1), ("least", 0)):
        other.graph.initializer.append(numpy_helper.from_array(np.array([value], np.int64), name))
    last.input[0] = "scored"
    nodes = [*list(other.graph.node)[:-1], *counts, last]
    del other.graph.node[:]
    other.graph.node.extend(nodes)
    other.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 1
    onnx.checker.check_model(other)
    assert surgeon.compare(decoder(), other, decode=True).proved


def test_equal_scores_for_all_tokens_prove_nothing() -> None:
    model = decoder()
    change(model, "head", np.zeros_like)
    assert surgeon.compare(model, model, decode=True).outcome.value == "unproved"


def test_bad_input_is_one_sentence(tmp_path) -> None:
    """A model that is no decoder, options that decoding does not have, and another vocabulary."""
    head = '<ir_version: 8, opset_import: ["": 17]>'
    plain = onnx.parser.parse_model(f"{head} g (float[n] x) => (float[n] y) {{y = Neg(x)}}")
    with pytest.raises(UsageError, match="The original is not a decoder: "):
        surgeon.compare(plain, decoder(), decode=True)
    with pytest.raises(UsageError, match="Omit inputs, dims, layers and assume"):
        surgeon.compare(decoder(), decoder(), decode=True, dims={"rows": 2})
    onnx.save(decoder(), tmp_path / "a.onnx")
    ran = run("compare", tmp_path / "a.onnx", tmp_path / "a.onnx", "--decode")
    assert (ran.exit_code, "PROVED" in ran.stdout) == (0, True)


@pytest.mark.parametrize(
    ("noise", "outcome"), [(0.0, "failed"), (0.5, "proved"), (500.0, "unproved")], ids=["none", "little", "much"]
)
def test_noise_of_the_original_widens_the_limit(noise, outcome, monkeypatch):
    """Up to a hundredth of the scores; beyond it nothing is proved."""
    monkeypatch.setattr(DecodingCheck, "_noise", lambda *_: noise)
    other = decoder()
    change(other, "head", lambda array: array * np.float32(1.001))
    found = surgeon.compare(decoder(), other, decode=True)
    assert found.outcome.value == outcome, found.reason


def test_noise_is_measured_where_a_comparison_fails():
    """Tables move by a unit in the last place: a fault of a thousandth is no rounding in float32."""
    other = decoder()
    change(other, "head", lambda array: array * np.float32(1.001))
    assert surgeon.compare(decoder(), other, decode=True).outcome.value == "failed"
    half, moved = (surgeon.convert(one, "float16", io="convert", check="none")[0] for one in (decoder(), other))
    assert surgeon.compare(half, moved, decode=True).proved
