"""Rules prove themselves: all that are installed hold, and faults planted in rules are found from the rule alone."""

import functools
import io
import json
import re
from zlib import crc32

import pytest
from onnx import TensorProto
from surgeon.patterns.activations.gelu import exact, gelu

from surgeon import Graph, Tensor, require, rule
from surgeon.authoring.rule_proof import prover
from surgeon.authoring.rule_proof.opset_range import newest_opset
from surgeon.authoring.rule_proof.pattern_arguments import PatternArguments
from surgeon.authoring.rule_proof.prover import prove_rule
from surgeon.authoring.rule_proof.result import InstanceOutcome, InstanceProof, RuleProof
from surgeon.display.terminal.terminal_renderer import show
from surgeon.proof.check_result import Outcome
from surgeon.rules.catalogue import all_rules
from tests import sampling
from tests.command_line import run
from tests.models import make


def prove(found, **settings):
    settings.setdefault("quick", True)
    settings.setdefault("targets", ["onnx"])
    return prove_rule(found, **settings)


@functools.cache
def proof_of_gelu():
    """One proof of the rule, and what it said on the way, for all tests that look at it."""
    seen = []
    return prove(gelu, progress=lambda name, count: seen.append((name, count))), seen


def plant(pattern, replacement, **settings):
    """A rule of this pattern and replacement for the standard ops, which is no pattern itself."""
    return make(pattern, replacement, **{"target": "onnx", "name": "planted", **settings})


def wanting(proof):
    """What is wrong, in words, for the message of an assertion."""
    return [f"{entry.target} {entry.opset} {entry.dtype} {entry.arguments}: {entry.reason}" for entry in proof.faults]


# Patterns that no made-up model suits, by rule: each form holds a value that may be anything, values that must fit one
# another, such as the halves of a table, or a number smaller than those that are made up.
UNMADE = {
    "deform_conv": {"torchvision", "mmcv", "plugin"},
    "group_norm": {"by_instances", "by_moments"},
    "group_norm_plugin": {"by_instances", "by_moments"},
    "group_norm_silu": {"of_parts"},
    "instance_norm": {"with_scale_behind"},
    "l2_norm": {"floored"},
    "matmul_integer_to_float": {"product", "with_bias"},  # of whose scales the first is a number, the second a vector
    "no_op_slice": {"sliced"},
    "roi_align": {"torchvision", "mmcv", "plugin"},
    "shape_of_merged_axis": {"quotient"},
    "shape_of_reshape": {"sliced_reshaped", "told_reshaped"},
    "transpose_before_split": {"in_three"},
}
# Rules that made-up models do not suit, as many sizes must fit one another, or as their forms are too many: those of
# attention, which tests/attention proves on exports, and rules of layout and for one provider with tests of their own.
BY_EXPORTS = {
    "grouped_query_attention",
    "grouped_onnx_attention",
    "grouped_causal_attention",
    "attention_4d_kv",
    "attention_kv_cache",
    "repeated_heads_kv_cache",
    "softcap_attention_kv_cache",
    "sequence_attention",
    "query_heads_as_rows",
    "kv_cache_length",
    "causal_attention",
    "no_op_mask",
    "attention_nan_guard",
    "packed_qkv_attention",
    "separate_qkv_attention",
    *("packed_qkv_kv_cache", "scaled_queries", "qkv_biases", "grouped_packed_qkv"),
    "rotary_embedding",
    "reshaped_score_bias",
    "slice_of_concat",
    *(
        "merged_heads_scores",
        "merged_heads_values",
        "norm_between_transposes",
        "matmul_batch_norm",
        "deformable_attention",
    ),
    *("layer_norm_channels_first", "rms_norm_channels_first", "rms_norm_from_l2", "rms_norm_from_l2_channels_first"),
    "empty_concat_inputs",  # tensors without elements, which are not made up
    "scatter_to_concat",
    "attention_3d_inputs",
    "window_attention",
    "where_on_split_heads",
    "multiplicative_mask",  # zeros and ones, which are not made up
    "repeat_kv_before_transpose",
    "concat_between_transposes",  # of whose forms those with norms of two kinds are spared
    "deform_conv_grid_sample",  # sizes that must fit
    *(
        "heads_in_batch",
        "stacked_qkv_split",
        "sequence_first_heads",
        "sequence_first_output",
    ),  # axes that must be of others
    "rotary_3d_input",
    "rotary_partial",
    *("einsum", "einsum_one_operand", "rotate_half_matmul"),
    *("flattened_batch_matmul", "flattened_linear", "unit_dim_transpose"),
    *("broadcast_kv_heads", "broadcast_mask"),
    "half_precision_norm_rounded",  # constants that are stored
    *("no_op_zeros", "cast_full"),  # sizes that are inputs, so that most tensors are too large
    "pad_conv_integer",  # a zero point that is fixed, which is not made up
    "expanded_scalar_where",  # a number that is spread, which is not made up
    "no_op_scatter",  # places in order, which are not made up
    "no_op_expand",  # that nothing is repeated follows from sizes that a made-up shape has not
    *("embed_layer_norm", "lower_embed_layer_norm", "lower_attention", "lower_rotary_embedding", "group_norm_node"),
    "lower_layer_norm",  # ONNX Runtime's own op, of opsets at which ONNX has none
    "transpose_between_reshapes",
    *("det", "dft", "stft", "col2im", "qlinear_conv", "bit_shift"),  # sizes that must fit, and attributes
    "space_to_depth",  # starts that must fit one another
    *("split_to_sequence", "sequence_construct"),  # what is no tensor
    *("scatter_elements", "scatter_nd", "scatter_plugin"),  # reductions, by name
    *("resize_antialias", "resize_coordinates", "resize_axes"),  # constants that are told
    *("max_roi_pool", "reduce_bool", "half_celu"),  # truths, and what few run
    *("mixed_dtype_layer_norm", "mixed_dtype_scale"),  # what none runs
    *("qlinear_concat", "qlinear_where", "qlinear_average_pool", "qlinear_global_average_pool", "qlinear_softmax"),
    *("qlinear_sigmoid", "qlinear_leaky_relu", "qgemm"),
    *("redundant_dq_q", "qdq_around_relu", "qlinear_add", "qlinear_mul"),  # integers, and scales that are stored
    *("matmul_nbits", "dynamic_quantize_lstm", "gather_block_quantized", "dequantize_blocks"),  # packed weights
    *(
        "uint8_qdq_to_int8",
        "integer_moves",
        "integer_joins",
        "integer_arithmetic",
        "integer_comparison",
    ),  # integers alone
}
NO_KERNEL, RUNS = "no kernel", "runs it as it is"
# Rules of which ONNX Runtime's own kernels may be too wrong to tell.
DOUBTED = {"scale_after_mask", "subtracted_mask"}
WRONG = "the runtime computes the original wrongly"  # as some softmax in float16; it says nothing about the rule


def plain(pattern):
    """The name of a pattern without the number of its trace."""
    return re.sub(r" \d+$", "", pattern)


def is_not_written(entries):
    """Whether a pattern need not be proved for a target: it has no kernel for the result, or runs the pattern."""
    return all(NO_KERNEL in entry.reason or RUNS in entry.reason for entry in entries)


def targets_of(found):
    """Targets to prove a rule for: the first that it writes for, and taken apart again, unless all are asked for."""
    if found.lacking:
        return ["onnx" if found.name.startswith("lower_") else "tensorrt"]
    if sampling.is_whole():
        return found.targets
    return [*found.targets[:1], *(target for target in found.targets[1:] if target == "decomposed")]


MADE_UP = [found for *_, found in all_rules() if found.name not in BY_EXPORTS]
STEP = 40  # of rules one is taken out of so many: those of all are proved at each place of their own tests
SAMPLE = [rule for rule in MADE_UP if crc32(rule.name.encode()) % STEP == 0]  # new rules change none


@pytest.mark.parametrize(
    "found", sampling.chosen(lambda: SAMPLE, lambda: MADE_UP), ids=lambda found: found.name
)
def test_every_rule_proves_itself(found):
    """Each pattern for each target; forms of it may be spared, for the rule's own reasons."""
    proof = prove(found, targets=targets_of(found), quick=not sampling.is_whole())
    if found.search is not None:
        assert not proof.entries
        return
    known = UNMADE.get(found.name, set())
    if known >= {plain(pattern) for pattern, _ in proof.not_instantiated} | {
        plain(entry.pattern) for entry in proof.entries
    }:
        assert all(entry.outcome == "spared" for entry in proof.entries)
        return
    if found.name in DOUBTED:
        doubts = [entry.reason for entry in proof.entries if entry.outcome == "unproved"]
        assert not proof.faults, wanting(proof)
        assert all(WRONG in reason for reason in doubts), doubts
    else:
        assert proof.outcome is Outcome.PROVED, wanting(proof)
    groups = {}
    for entry in proof.entries:
        groups.setdefault((plain(entry.pattern), entry.target), []).append(entry)
    unproved = {
        (pattern, target): sorted({entry.reason for entry in entries})
        for (pattern, target), entries in groups.items()
        if all(entry.outcome != "proved" for entry in entries) and not is_not_written(entries)
    }
    unproved = {key: reasons for key, reasons in unproved.items() if key[0] not in known}
    assert not unproved, "a pattern is never proved for a target"
    made = {pattern for pattern, _ in groups}
    assert {plain(pattern) for pattern, _ in proof.not_instantiated} - made <= known


@pytest.mark.skipif(not sampling.is_whole(), reason="takes as long as all other rules: pytest --whole")
def test_gelu_in_full():
    """Every pattern and target, opsets from the first with Erf on, four dtypes, ranks 0 to 4."""
    proof = prove_rule(gelu)
    assert proof.outcome is Outcome.PROVED, wanting(proof)
    proved = [entry for entry in proof.entries if entry.outcome == "proved"]
    to_ort = [entry for entry in proved if (entry.pattern, entry.target) == ("exact", "ort")]
    assert {9, 13, 14, newest_opset()} <= {entry.opset for entry in to_ort}
    assert {"float32", "float16"} <= {entry.dtype for entry in to_ort}
    assert {entry.arguments.rank for entry in to_ort} == {0, 1, 2, 3, 4}
    assert {entry.arguments.kind for entry in to_ort} == {"shapes", "ones", "empty"}
    pairs = {(entry.pattern, entry.target) for entry in proved}
    assert {("ort form", "onnx"), ("onnx form", "contrib"), ("ort form", "decomposed")} <= pairs


def test_what_the_rule_refuses_is_skipped_for_its_own_reason():
    proof, _ = proof_of_gelu()
    reasons = {entry.reason for entry in proof.entries if entry.outcome == "spared"}
    assert any("needs opset 20 and the model has 19" in reason for reason in reasons)

    def of_three(g: Graph, x: Tensor) -> Tensor:
        require(x.shape is not None and len(x.shape) == 3, "x must have three axes")
        return g.abs(x)

    proof = prove(plant(lambda g, x: g.abs(g.neg(x)), of_three))
    assert proof.outcome is Outcome.PROVED, wanting(proof)
    assert {entry.arguments.rank for entry in proof.entries if entry.outcome == "proved"} == {3}
    assert {entry.reason for entry in proof.entries if entry.outcome == "spared"} == {"x must have three axes"}


def perm_of_neg(g: Graph, x: Tensor, perm: list[int]) -> Tensor:
    return g.transpose(g.neg(x), perm=perm)


def mean_of_neg(g: Graph, x: Tensor, axes: list[int]) -> Tensor:
    return g.neg(g.reduce_mean(x, axes))


# Each: the pattern, the replacement, what the shapes or values of a failure hold, and words of the reason.
# fmt: off
FAULTS = {
    "a wrong constant": (
        exact, lambda g, x: g.mul(x, 0.4, g.add(g.erf(g.div(x, 2**0.5)), 1.0)), "x[a, b, c]", "instead of"),
    "swapped inputs": (lambda g, x, y: g.neg(g.sub(x, y)), lambda g, x, y: g.sub(x, y), "x[a, b, c]", "instead of"),
    "another dtype": (
        lambda g, x: g.abs(g.abs(x)), lambda g, x: g.cast(g.abs(x), to="float16"), "x[a, b, c]", "is float16, but"),
    "right for rank 3, wrong for rank 2": (
        lambda g, x: g.abs(g.softmax(x, axis=-1)), lambda g, x: g.softmax(x, axis=2), "x[a, b]", "axis"),
    "a captured permutation that is not used": (
        perm_of_neg, lambda g, x, perm: g.neg(g.transpose(x, perm=[0, 2, 1])), "perm=[2, 1, 0]", "shape"),
    "a wrong axis": (
        mean_of_neg, lambda g, x, axes: g.reduce_mean(g.neg(x), [0]), "axes=[-1]", "shape"),
    "a broadcast that changes the shape": (
        lambda g, x, y: g.sub(g.add(x, y), x), lambda g, x, y: g.identity(y), "y[c]", "shape"),
    "wrong where there are no elements": (
        lambda g, x: g.neg(g.flatten(x)), lambda g, x: g.reshape(g.neg(x), [0, -1]), "x[0, 3]", "without elements"),
    "wrong only for infinity": (
        lambda g, x: g.abs(g.abs(x)), lambda g, x: g.add(g.sub(x, x), g.abs(x)), "x[a, b, c]", "gives nan instead of"),
    "a form of any_of that means something else": (
        lambda g, x: g.neg(g.any_of(g.mul(x, x), g.abs(x))), lambda g, x: g.neg(g.pow(x, 2)), "", "instead of"),
    "wrong when the optional input is there": (
        lambda g, x, low=None: g.neg(g.clip(x, low)), lambda g, x, low: g.neg(x), "low[]", "instead of"),
}
# fmt: on


@functools.cache
def proof_of_fault(fault):
    """One proof for all tests that look at it."""
    return prove(plant(*FAULTS[fault][:2]))


@pytest.fixture
def one_float(monkeypatch):
    """What is no question of dtypes is proved in float32 and int64 alone, unless everything is."""
    if not sampling.is_whole():
        monkeypatch.setattr(prover, "DTYPES", (TensorProto.FLOAT, TensorProto.INT64))


@pytest.mark.usefixtures("one_float")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault):
    *_, arguments, reason = FAULTS[fault]
    proof = proof_of_fault(fault)
    failed = [entry for entry in proof.entries if entry.outcome == "failed"]
    assert failed, proof.counts
    assert proof.outcome is Outcome.FAILED
    assert any(arguments in str(entry.arguments) and reason in entry.reason for entry in failed), wanting(proof)
    assert all(entry.model is not None and entry.reason for entry in failed)


def test_what_would_break_a_schema_is_never_written():
    """A lost Cast: Neg gives the dtype that it gets."""
    proof = prove(plant(lambda g, x: g.neg(g.cast(x, to="float16")), lambda g, x: g.neg(x)))
    by_dtype = {}
    for entry in proof.entries:
        by_dtype.setdefault(entry.dtype, set()).add(entry.outcome)
    assert by_dtype.pop("float16") == {"proved"}
    assert set(by_dtype) >= {"float32", "int64"}
    assert all(outcomes == {"spared"} for outcomes in by_dtype.values())


def test_a_rule_right_at_rank_3_is_proved_there_and_fails_at_rank_2():
    proof = proof_of_fault("right for rank 3, wrong for rank 2")
    by_rank = {}
    for entry in proof.entries:
        by_rank.setdefault(entry.arguments.rank, set()).add(entry.outcome)
    assert "proved" in by_rank[3]
    assert "failed" not in by_rank[3]
    assert by_rank[2] == {"failed"}


def test_a_pattern_that_does_not_match_its_own_instance_is_found():
    """Cast has no default for `to`, so a pattern without it matches nothing."""
    proof = prove(plant(lambda g, x: g.cast(g.relu(x)), lambda g, x: g.relu(x)))
    assert proof.outcome is Outcome.FAILED
    assert {entry.outcome for entry in proof.entries} == {"not matched"}
    assert "Cast" in proof.faults[0].reason
    assert "to = 1" in proof.faults[0].reason


@pytest.mark.usefixtures("one_float")
def test_integers_are_proved_where_the_ops_take_them():
    """A division leaves integers by itself; the mean of doubled integers is not the doubled mean, for it truncates."""

    def written_out(g: Graph, z: Tensor) -> Tensor:
        return g.max(z, g.neg(z))

    def doubled(g: Graph, x: Tensor) -> Tensor:
        mean = g.reduce_mean(x, [-1])
        return written_out(g, g.add(mean, mean))

    right = prove(plant(lambda g, x, y: g.abs(g.sub(x, y)), lambda g, x, y: written_out(g, g.sub(x, y))))
    assert right.outcome is Outcome.PROVED, wanting(right)
    assert "int64" in {entry.dtype for entry in right.entries if entry.outcome == "proved"}
    left = prove(plant(lambda g, x, y: g.abs(g.div(x, g.mul(y, y))), lambda g, x, y: g.relu(x)))
    assert {entry.outcome for entry in left.entries if entry.dtype == "int64"} == {"spared"}
    wrong = prove(plant(lambda g, x: g.abs(g.reduce_mean(g.add(x, x), [-1])), doubled))
    assert {entry.dtype for entry in wrong.faults} == {"int64"}, wanting(wrong)


@pytest.mark.usefixtures("one_float")
def test_a_replacement_that_errs_when_the_rank_is_not_stated_is_found():
    """Guarded for the rank it knows, it takes the other branch where it knows none."""

    def pattern(g: Graph, x: Tensor, perm: list[int]) -> Tensor:
        return g.transpose(g.neg(x), perm=perm)

    def swapped(g: Graph, x: Tensor, perm: list[int]) -> Tensor:
        rank = len(x.shape) if x.shape is not None else 3
        return g.neg(g.transpose(x, perm=[0, 2, 1] if rank == 3 else perm))

    def of_three_only_swapped(x: Tensor, perm: list[int]) -> None:
        require(len(perm) != 3 or perm == [0, 2, 1], "three axes must have the last two swapped")

    proof = prove(plant(pattern, swapped, conditions=[of_three_only_swapped]))
    assert proof.faults
    assert {entry.arguments.kind for entry in proof.faults} == {"unstated"}
    assert all("without declared shapes" in entry.reason for entry in proof.faults)


IMPLEMENTED = """
import numpy as np
import surgeon

@surgeon.implements("my::twice")
def twice(x):
    return x + x
"""


def to_standard(g: Graph, x: Tensor) -> Tensor:
    return g.add(x, x) if x.shape is not None else g.sum(x, x)


def to_foreign(g: Graph, x: Tensor) -> Tensor:
    return g.op("my::twice", x if x.shape is not None else g.identity(x))


@pytest.mark.usefixtures("one_float")
@pytest.mark.parametrize("way", ["from", "to"])
def test_python_implementations_serve_in_every_part_of_a_proof(way, tmp_path):
    """In the search for shapes, without elements and without stated shapes too; and without them all is unproved."""
    path = tmp_path / "ops.py"
    path.write_text(IMPLEMENTED)
    if way == "from":
        found = plant(lambda g, x: g.op("my::twice", x), to_standard)
    else:
        found = plant(lambda g, x: g.add(x, x), to_foreign)
    proof = prove(found, custom_ops=[path])
    reasons = {(entry.outcome, entry.reason) for entry in proof.entries if entry.outcome != "proved"}
    assert proof.outcome is Outcome.PROVED, reasons
    assert {entry.arguments.kind for entry in proof.entries} == {"shapes", "ones", "empty", "unstated"}
    without = prove(found)
    assert without.outcome is Outcome.UNPROVED
    assert {entry.outcome for entry in without.entries} == {"unproved"}


@pytest.mark.usefixtures("one_float")
def test_shapes_that_an_implementation_refuses_are_not_tried(tmp_path):
    path = tmp_path / "ops.py"
    path.write_text(IMPLEMENTED.replace("return x + x", "assert x.ndim != 2\n    return x + x"))
    found = plant(lambda g, x: g.op("my::twice", x), to_standard)
    assert {entry.arguments.rank for entry in prove(found, custom_ops=[path]).entries} == {0, 3}
    assert {entry.arguments.rank for entry in prove(found).entries} == {0, 2, 3}


@pytest.mark.usefixtures("one_float")
def test_an_approximate_rule_may_differ_by_so_much_in_every_part_of_a_proof():
    """With unstated shapes, and in a sum over no elements; by more it fails there."""

    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.abs(g.neg(g.reduce_sum(g.abs(x), [0])))

    def near(g: Graph, x: Tensor) -> Tensor:
        return g.add(g.reduce_sum(g.abs(x), [0]), 0.004 if x.shape is not None else 0.005)

    def kinds(proof, outcome):
        return {entry.arguments.kind for entry in proof.entries if entry.outcome == outcome}

    proof = prove(plant(pattern, near, approximate=0.01))
    assert kinds(proof, "proved") == {"shapes", "ones", "empty", "unstated"}
    assert not proof.faults, wanting(proof)
    proof = prove(plant(pattern, near, approximate=0.0001))
    assert kinds(proof, "failed") == {"shapes", "ones", "empty", "unstated"}


FILE = """
from surgeon import Graph, Tensor, rule

@rule(patterns=[lambda g, x: g.abs(g.neg(x))], target="onnx")
def proved(g: Graph, x: Tensor) -> Tensor:
    return g.abs(x)

@rule(patterns=[lambda g, x: g.op("my::first", g.relu(x))], target="onnx")
def unproved(g: Graph, x: Tensor) -> Tensor:
    return g.op("my::second", x)

@rule(patterns=[lambda g, x: g.neg(g.abs(x))], target="onnx")
def failed(g: Graph, x: Tensor) -> Tensor:
    return g.abs(x)
"""


@pytest.mark.usefixtures("one_float")
@pytest.mark.parametrize(("name", "code"), [("proved", 0), ("unproved", 1), ("failed", 1)])
def test_the_exit_code_says_what_is_printed_last(name, code, tmp_path):
    """What cannot be told is not fine."""
    path = tmp_path / "rules_to_prove.py"
    path.write_text(FILE)
    result = run("rules", f"{path}:{name}", "--prove")
    assert result.exit_code == code, result.output
    assert result.stdout.splitlines()[-1].startswith(name.upper())


def test_one_instance_that_is_unproved_leaves_the_rule_so():
    def entry(outcome):
        return InstanceProof("pattern", "", "ort", 17, "float32", PatternArguments(0, {}), outcome)

    for outcomes, wanted in (
        ("proved", "proved"),
        ("proved spared", "proved"),
        ("proved unproved", "unproved"),
        ("spared", "unproved"),
        ("", "unproved"),
        ("proved failed unproved", "failed"),
    ):
        proof = RuleProof("name", "where", [entry(InstanceOutcome(one)) for one in outcomes.split()])
        assert proof.outcome.value == wanted
    assert RuleProof("name", "where", [entry(InstanceOutcome.NOT_MATCHED)]).outcome is Outcome.FAILED


def test_a_replacement_that_raises_is_found():
    def raises(g: Graph, x: Tensor) -> Tensor:
        return g.relu(x) if x.shape[1] else g.neg(x)

    proof = prove(plant(lambda g, x: g.relu(g.neg(x)), raises))
    assert any("IndexError" in entry.reason for entry in proof.faults)


def test_what_nothing_here_can_run_is_unproved_and_not_ok_for_nothing():
    proof = prove(plant(lambda g, x: g.op("my::first", g.relu(x)), lambda g, x: g.op("my::second", x)))
    assert proof.entries
    assert {entry.outcome for entry in proof.entries} == {"unproved"}
    assert proof.outcome is Outcome.UNPROVED


def test_a_rule_without_instances_proves_nothing():
    @rule(patterns=[lambda g, x: g.gelu(g.bitwise_not(x))], target="onnx")
    def impossible(g: Graph, x: Tensor) -> Tensor:
        return g.gelu(x)

    proof = prove(impossible)
    assert proof.entries == []
    assert proof.outcome is Outcome.UNPROVED
    assert "no instance can be generated from its patterns (<lambda>: " in proof.why_empty
    stream = io.StringIO()
    show(proof, stream)
    assert f"nothing to prove: {proof.why_empty}\n" in stream.getvalue()


def test_why_nothing_is_to_be_proved_of_a_search_or_for_a_target_without_a_form():
    (dead,) = (found for _, _, found in all_rules() if found.name == "dead_nodes")
    assert "finds its sites by a search" in prove(dead).why_empty
    assert "has no form for target ort" in prove_rule(make_for("tensorrt"), targets=["ort"]).why_empty
    assert not proof_of_gelu()[0].why_empty


def make_for(target: str):
    return rule(patterns=[lambda g, x: g.relu(g.tanh(x))], target=target, name="mine")(lambda g, x: g.op("acme::u", x))


def test_the_proof_as_data():
    proof = proof_of_fault("a wrong constant")
    found = json.loads(json.dumps(proof.to_dict(), allow_nan=False))
    assert found["rule"] == "planted"
    assert found["outcome"] == "failed"
    assert list(found["counts"]) == list(InstanceOutcome)
    entry = next(entry for entry in found["entries"] if entry["outcome"] == "failed")
    assert entry["errors"]["ok"] is False
    assert entry["shapes"]["x"] == ["a", "b", "c"]


def test_what_is_printed():
    stream = io.StringIO()
    show(proof_of_gelu()[0], stream)
    text = stream.getvalue()
    assert text.startswith(f"gelu  ({gelu.where})")
    assert "exact" in text
    assert "fp32 fp16" in text
    assert "needs opset 20 and the model has 19" in text
    assert text.rstrip().splitlines()[-1].startswith("PROVED")

    stream = io.StringIO()
    show(proof_of_fault("a wrong constant"), stream)
    text = stream.getvalue()
    assert "FAILED  x[a, b, c] for onnx at opset" in text
    assert "Erf_2_0 = Erf" in text, "the instance that fails is not shown"
    assert text.rstrip().splitlines()[-1].startswith("FAILED")


def test_progress_counts_entries():
    proof, seen = proof_of_gelu()
    assert seen[-1] == ("gelu", len(proof.entries))
