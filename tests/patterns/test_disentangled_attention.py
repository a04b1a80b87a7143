"""Disentangled attention: what is written for TensorRT, what does not match and why."""

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from surgeon.patterns.attention.disentangled_attention import buckets, disentangled_attention

import surgeon
from surgeon.runtime.kernels.tensorrt_plugins import bucket, tensorrt_disentangled_attention
from surgeon.testing import Case, check_spares, parse
from tests.patterns.formulas import check_by_formula

LENGTH, SPAN = 24, 8
TENSORS = f"float[b, {LENGTH}, 6] q, float[b, 6, {LENGTH}] kt, float[b, {LENGTH}, 16] c, float[b, {LENGTH}, 16] p"
CONTENT = "s = Div(kt, root) a = MatMul(q, s)"
AROUND = "d = Div(e, root) t = Transpose<perm = [0, 2, 1]>(f) u = Div(t, root) r = Add(d, u) y = Add(a, r)"
LOOKS = "e = GatherElements<axis = -1>(c, pc) f = GatherElements<axis = -1>(p, pp)"
SPREAD = "z = Shape(a) i = Expand(pc, z) j = Expand(pp, z) " + LOOKS.replace("pc", "i").replace("pp", "j")


def places(log=True, length=LENGTH, most=2 * SPAN):
    """What transformers looks up: buckets of `make_log_bucket_position`, or as in DeBERTa's first version without."""
    apart = np.arange(length)[:, None] - np.arange(length)
    if log:
        middle, sign = SPAN // 2, np.sign(apart)
        far = torch.tensor(np.where((apart < middle) & (apart > -middle), middle - 1, abs(apart)))
        by_log = torch.ceil(torch.log(far / middle) / torch.log(torch.tensor((most - 1) / middle)) * (middle - 1))
        apart = np.where(far <= middle, apart, (by_log + middle).numpy() * sign).astype(np.int64)
    return np.clip(apart + SPAN, 0, 2 * SPAN - 1), np.clip(-apart + SPAN, 0, 2 * SPAN - 1)


def graph(body, inputs=TENSORS, at=None, batch=None, root="4.5", dtype="float"):
    """A model of one attention's scores; batch: of places that are written out for each of so many."""
    head = f"({inputs}) => (float[b, {LENGTH}, {LENGTH}] y)"
    text = f'<ir_version: 8, opset_import: ["" : 17, "trt.plugins" : 1]> g {head}'
    numbers = f"<float root = {{{root}}}, float half = {{2.25}}>"
    model = parse(f"{text} {numbers} {{ {body} }}".replace("float", dtype))
    for name, values in zip(("pc", "pp"), at or places(), strict=True):
        values = np.broadcast_to(values, (batch or 1, *values.shape))
        model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
    return model


FIXED = TENSORS.replace("[b,", "[4,")
MOVED = SPREAD.replace("i = Expand(pc, z)", "h = Expand(pc, z) i = Add(h, k)")

FOR = {"target": "tensorrt"}
# fmt: off
FIRES = [
    Case(disentangled_attention, "places of one batch, spread", **FOR,
         model=graph(f"{CONTENT} {SPREAD} {AROUND}")),
    Case(disentangled_attention, "places written out", **FOR,
         model=graph(f"{CONTENT} {LOOKS} {AROUND}", FIXED, batch=4)),
    Case(disentangled_attention, "divided behind the product", **FOR,
         model=graph(f"s = MatMul(q, kt) a = Div(s, root) {SPREAD} {AROUND}")),
    Case(disentangled_attention, "multiplied, and summed in another order", **FOR,
         model=graph(f"{CONTENT.replace('Div', 'Mul')} {SPREAD} "
               "d = Mul(e, root) t = Transpose<perm = [0, 2, 1]>(f) u = Mul(root, t) r = Add(a, d) y = Add(u, r)",
               root="0.25")),
]
NEGATIVES = [
    Case(disentangled_attention, "no buckets, as in DeBERTa's first", **FOR, why="those that the plugin looks up",
         model=graph(f"{CONTENT} {SPREAD} {AROUND}", at=places(log=False))),
    Case(disentangled_attention, "buckets that end elsewhere", **FOR, why="those that the plugin looks up",
         model=graph(f"{CONTENT} {SPREAD} {AROUND}", at=places(most=64))),
    Case(disentangled_attention, "the two kinds of places confused", **FOR, why="those that the plugin looks up",
         model=graph(f"{CONTENT} {SPREAD} {AROUND}", at=places()[::-1])),
    Case(disentangled_attention, "keys turned by no Transpose", **FOR, why="Transpose",
         model=graph(f"{CONTENT} {SPREAD} {AROUND}".replace("Transpose<perm = [0, 2, 1]>(f)", "Identity(f)"))),
    Case(disentangled_attention, "parts by different numbers", **FOR, why="multiplied by the same number",
         model=graph(f"{CONTENT} {SPREAD} {AROUND}".replace("Div(t, root)", "Div(t, half)"))),
    Case(disentangled_attention, "places that an input moves", **FOR, why="positions must be constant",
         model=graph(f"{CONTENT} {MOVED} {AROUND}", TENSORS + ", int64[1] k")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """Its formula goes over the pairs one by one."""
    check_by_formula(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


@pytest.mark.parametrize(("length", "span"), [(24, 8), (512, 256), (1024, 256), (300, 128), (64, 16)])
def test_the_buckets_are_those_of_transformers(length, span):
    """Both those that the rule compares with and those of the plugin's formula."""
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    apart = torch.arange(length)[:, None] - torch.arange(length)
    wanted = torch.clamp(make_log_bucket_position(apart, span, 2 * span) + span, 0, 2 * span - 1).numpy()
    np.testing.assert_array_equal(buckets(length, span), wanted)
    assert [bucket(distance, span) for distance in range(length)] == wanted[:, 0].tolist()
    assert [bucket(-distance, span) for distance in range(length)] == wanted[0].tolist()


def test_the_formula_is_the_definition():
    """Each pair by itself: what the query says to the key's place, and the key to the query's."""
    rng = np.random.default_rng(0)
    content, to_places, to_queries = (rng.normal(size=(2, 20, size)) for size in (20, 16, 16))
    found = tensorrt_disentangled_attention(content, to_places, to_queries, span=SPAN, factor=0.5)
    for b, i, j in np.ndindex(2, 20, 20):
        said = to_places[b, i, bucket(i - j, SPAN)] + to_queries[b, j, bucket(i - j, SPAN)]
        assert found[b, i, j] == pytest.approx((content[b, i, j] + said) / 2)


@pytest.mark.parametrize("dynamo", [False, True])
def test_a_model_of_transformers(dynamo, tmp_path):
    """Both layers of a small DeBERTa-v3: each a plugin of all its fields, equal in the whole."""
    from transformers import DebertaV2Config, DebertaV2Model

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
    positions = {"position_buckets": SPAN, "max_position_embeddings": 2 * SPAN, "max_relative_positions": -1}
    kinds = {"pos_att_type": ["p2c", "c2p"], "share_att_key": True, "norm_rel_ebd": "layer_norm"}
    settings = {"relative_attention": True, "position_biased_input": False, "type_vocab_size": 0}
    config = DebertaV2Config(vocab_size=64, **settings, **sizes, **positions, **kinds)
    torch.manual_seed(0)
    model = DebertaV2Model(config).eval()
    given = torch.randint(0, 64, (2, LENGTH)), torch.ones(2, LENGTH, dtype=torch.int64)
    path = tmp_path / "deberta.onnx"
    more = {} if dynamo else {"opset_version": 17}
    torch.onnx.export(model, given, str(path), dynamo=dynamo, input_names=["ids", "mask"], **more)
    rules = ["constant_folding", "disentangled_attention"]
    made, report = surgeon.rewrite(onnx.load(path), rules, target="tensorrt")
    assert report.outcome == "proved"
    nodes = [node for node in made.graph.node if node.domain == "trt.plugins"]
    assert len(nodes) == 2
    settings = {item.name: onnx.helper.get_attribute_value(item) for item in nodes[0].attribute}
    factor = settings.pop("factor")
    assert settings == {"span": SPAN, "plugin_version": b"2", "plugin_namespace": b""}
    assert factor == pytest.approx(1 / np.sqrt(3 * 8))
    assert not [one for one in surgeon.check(made, "tensorrt", load=False) if "isentangled" in one.reason]
