"""Integer inputs of a part of a split model, with values from declared shapes."""

import onnx

import surgeon
from surgeon import Graph, Tensor, rule
from surgeon.file.model import Model
from surgeon.pipeline.rewriting.rule_run import open_index
from surgeon.proof.region.inferred_sizes import inferred_size
from surgeon.shapes.index_shapes import shapes_of

PART = """<ir_version: 9, opset_import: ["" : 17]>
g (float[batch, length, 8] x, int64[1] n, int64[1] l, int64[1] other) => (float[length, batch, 2, 4] y)
<int64[1] two = {2}, int64[1] four = {4}, float[length, batch, 8] t>
{ t = Transpose<perm = [1, 0, 2]>(x)  s = Concat<axis = 0>(l, n, two, four)  r = Reshape(t, s)  y = Relu(r)
  u = Concat<axis = 0>(other, other) }"""


def part(stated=True):
    model = onnx.parser.parse_model(PART)
    if stated:
        sizes = ["length", "batch", 2, 4]
        model.graph.value_info.append(onnx.helper.make_tensor_value_info("r", onnx.TensorProto.FLOAT, sizes))
    return model


def told(model, name, tmp_path):
    onnx.save(model, tmp_path / "part.onnx")
    index = open_index(Model.open(tmp_path / "part.onnx"))
    found = inferred_size(shapes_of(index), index.main, name)
    return None if found is None else [str(size) for size in found]


def test_the_stated_shape_of_a_reshape_reports_what_its_target_is_made_of(tmp_path):
    assert [told(part(), name, tmp_path) for name in ("n", "l", "other", "x")] == [["batch"], ["length"], None, None]


def test_a_region_that_reshapes_by_sizes_that_are_fed_is_proved():
    def fused(g: Graph, x: Tensor, shape: Tensor) -> Tensor:
        return g.relu(g.reshape(g.transpose(x, perm=[1, 0, 2]), shape))

    @rule(patterns=[fused], target="any")
    def earlier(g: Graph, x: Tensor, shape: Tensor) -> Tensor:
        return g.reshape(g.transpose(g.relu(x), perm=[1, 0, 2]), shape)

    _, report = surgeon.rewrite(part(), earlier)
    (site,) = report.sites
    assert site.outcome == "proved"
    assert len(site.proof.sizes) > 5, "at many sizes, not only where all are one"
