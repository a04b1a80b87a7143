"""`rewrite --measure`: the model that is written, the forms that stay, and the report.  Latencies follow from nodes.

The real machine is not asked, so that no test depends on it: a node of each operator takes as long as a table says.
"""

import json
from collections import Counter

import numpy as np
import onnx
import pytest

import surgeon
from surgeon.display.terminal.terminal_renderer import text_of
from surgeon.pipeline.measuring import measure, sampler
from surgeon.runtime.timing.loaded_graphs import LoadedModel, digest, graph_key, peak_memory
from surgeon.runtime.timing.samples import LatencySamples
from surgeon.testing import parse
from tests.command_line import run

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
g (float[rows, 8] x, float[rows, 8] s) => (float[rows, 8] y)
<float[8] b = {1, 2, 3, 4, 5, 6, 7, 8}, float[8] one = {1, 1, 1, 1, 1, 1, 1, 1}, float half = {0.5},
 float root = {1.4142135}, float unit = {1}>
{
  d = Div(x, root)  e = Erf(d)  f = Add(e, unit)  h = Mul(x, f)  a = Mul(h, half)
  r = Add(a, s)  y = LayerNormalization(r, one, b)
}
"""
NODES, SLOW, FREE = 1e-3, 20e-3, 1e-6  # seconds of one node


class FakeMachine:
    """Gives each node a latency by its operator, with noise; replaces the two functions that measure."""

    def __init__(self, monkeypatch, costs=(), noise=0.002, busy=0.0):
        self.costs, self.noise, self.random, self.calls = dict(costs), noise, np.random.default_rng(0), 0
        self.idle = 1 - busy
        monkeypatch.setattr(sampler, "sample", self.sample)
        monkeypatch.setattr(measure, "sample_until", self.sample_until)

    def seconds(self, model):
        nodes = (onnx.load(model) if not isinstance(model, onnx.ModelProto) else model).graph.node
        return sum(self.costs.get(node.op_type, NODES) for node in nodes)

    def sample(self, asked, sizes, loads=6):
        self.calls += 1
        true = np.array([self.seconds(model) for model in asked.sources])
        logs = np.log(true) + self.random.normal(0, self.noise, (loads, len(asked.feeds), len(true)))
        return LatencySamples(np.exp(logs)[..., None], np.arange(loads) * 1.0, np.full(loads, self.idle))

    def sample_until(self, asked, sizes, *, loads, seconds, precision):
        return self.sample(asked, sizes, loads)


def rewritten(tmp_path, rules="ort", shapes=({"rows": 4},), **given):
    source, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(parse(MODEL), source)
    given = {"options": surgeon.CheckOptions(cache=False), "threads": 1, **given}
    _, report = surgeon.rewrite(source, rules, output=output, measure=True, at=shapes, **given)
    return report, Counter(node.op_type for node in onnx.load(output).graph.node), source, output


def test_the_default_forms_are_written_where_they_are_the_fastest(tmp_path, monkeypatch):
    FakeMachine(monkeypatch, {"Sum": FREE, "SkipLayerNormalization": SLOW})
    report, ops, _, _ = rewritten(tmp_path)
    assert ops == {"Gelu": 1, "Sum": 1, "LayerNormalization": 1}
    found = report.measurement
    assert found.outcome == "not slower"
    assert found.bench.ratios[0].verdict == "faster"
    assert found.rules == ["ort"]
    assert report.outcome == "proved"


def test_another_form_is_written_where_it_is_faster(tmp_path, monkeypatch):
    FakeMachine(monkeypatch, {"Sum": SLOW, "SkipLayerNormalization": FREE})
    report, ops, source, output = rewritten(tmp_path)
    assert ops == {"Gelu": 1, "SkipLayerNormalization": 1}
    found = report.measurement
    assert {"ort", "-residual_sum", "-residual_rms_sum"} == set(found.rules)
    assert any(gain.model == "residual: inside the norm" and gain.ratio < 0.9 for gain in found.gains)
    again, _ = surgeon.rewrite(source, found.rules, output=tmp_path / "again.onnx")
    assert again.read_bytes() == output.read_bytes()  # the rules of the report repeat it without a measurement


def test_a_family_that_loses_stays_out(tmp_path, monkeypatch):
    FakeMachine(monkeypatch, {"Gelu": SLOW})
    report, ops, _, _ = rewritten(tmp_path)
    assert ops["Gelu"] == 0
    assert ops["Erf"] == 1
    assert "-gelu" in report.measurement.rules


def test_the_model_stays_where_every_result_is_slower(tmp_path, monkeypatch):
    FakeMachine(monkeypatch, {"Gelu": SLOW})
    report, _, source, output = rewritten(tmp_path, "gelu")
    assert output.read_bytes() == source.read_bytes()
    assert report.measurement.outcome == "kept"
    assert report.outcome == "unchanged"
    text = text_of(report)
    assert "KEPT" in text
    assert "the model stays as it is" in text


def test_a_loss_at_one_shape_keeps_the_model(tmp_path, monkeypatch):
    machine = FakeMachine(monkeypatch)
    plain = machine.sample

    def slower_at_the_second(asked, sizes, loads=6):
        found = plain(asked, sizes, loads)
        found.seconds[:, 1, 1:] *= 4
        return found

    machine.sample = slower_at_the_second
    monkeypatch.setattr(sampler, "sample", slower_at_the_second)
    report, _, source, output = rewritten(tmp_path, "gelu", shapes=({"rows": 4}, {"rows": 16}))
    assert report.measurement.outcome == "kept"
    assert output.read_bytes() == source.read_bytes()
    assert [ratio.verdict for ratio in report.measurement.bench.ratios] == ["faster", "slower"]


def test_noise_that_hides_a_loss_keeps_the_model(tmp_path, monkeypatch):
    FakeMachine(monkeypatch, {"Gelu": 5e-3}, noise=0.5)
    report, _, source, output = rewritten(tmp_path, "gelu")
    assert report.measurement.outcome == "kept"
    assert output.read_bytes() == source.read_bytes()


def test_a_busy_machine_decides_nothing(tmp_path, monkeypatch):
    FakeMachine(monkeypatch, {"Gelu": SLOW}, busy=0.9)
    monkeypatch.setattr(sampler, "others_share", lambda asked, samples: 1 - float(samples.idle[0]))
    report, ops, _, _ = rewritten(tmp_path, "gelu", threads=2)
    assert ops["Gelu"] == 1  # the default form
    text = text_of(report)
    assert "UNDECIDED" in text
    assert "90 % of the processors" in text
    assert "--threads 1" in text


def test_a_model_without_a_site_is_not_measured(tmp_path, monkeypatch):
    machine = FakeMachine(monkeypatch)
    report, _, source, output = rewritten(tmp_path, "rotary_embedding")
    assert machine.calls == 0
    assert report.measurement.outcome == "same graph"
    assert output.read_bytes() == source.read_bytes()


def test_a_dynamic_dim_needs_a_size(tmp_path, monkeypatch):
    FakeMachine(monkeypatch)
    with pytest.raises(surgeon.UsageError, match="'rows'.*has no size"):
        rewritten(tmp_path, shapes=())
    assert not (tmp_path / "out.onnx").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["in.onnx"]  # no temporary model is left


def test_samples_are_stored_and_used_again(tmp_path, monkeypatch):
    """The last measurement is always new."""
    monkeypatch.setenv("SURGEON_CACHE", str(tmp_path / "cache"))
    machine = FakeMachine(monkeypatch, {"Sum": SLOW, "SkipLayerNormalization": FREE})
    given = {"options": surgeon.CheckOptions()}
    first, *_ = rewritten(tmp_path, **given)
    calls, machine.calls = machine.calls, 0
    second, *_ = rewritten(tmp_path, **given)
    assert machine.calls == 1 < calls
    assert second.measurement.rules == first.measurement.rules


def test_the_report_has_the_measurement(tmp_path, monkeypatch):
    FakeMachine(monkeypatch, {"Sum": SLOW, "SkipLayerNormalization": FREE})
    report, *_ = rewritten(tmp_path)
    held = json.loads(json.dumps(report.to_dict()))["measurement"]
    assert held["bench"]["ratios"][0]["verdict"] == "faster"
    assert held["bench"]["threads"] == 1
    assert {one["model"] for one in held["gains"]} >= {"residual: inside the norm"}
    text = text_of(report)
    assert "FASTER" in text
    assert "of the model's time at rows 4" in text
    assert "1 thread" in text
    details = text_of(report, verbose=True)
    assert "residual: inside the norm by summed first" in details
    chosen = next(line for line in text.splitlines() if line.startswith("chosen"))
    assert chosen.count("·") == len(report.measurement.gains) - 1 > 0
    assert "Span" not in chosen
    assert "--rules ort,-residual_rms_sum,-residual_sum" in text


def test_a_page_draws_the_ratios(tmp_path, monkeypatch):
    FakeMachine(monkeypatch, {"Sum": SLOW, "SkipLayerNormalization": FREE})
    report, *_ = rewritten(tmp_path)
    assert "ratios with their 95 % intervals" in report._repr_html_()


def test_a_recipe_records_rules_and_no_measurement(tmp_path):
    result = run("record", tmp_path / "a.toml", "rewrite", "IN", "OUT", "--rules", "gelu", "--measure")
    assert result.exit_code == 2
    assert "A recipe does not measure" in result.stderr


def test_a_model_in_memory_is_measured(monkeypatch):
    FakeMachine(monkeypatch, {"Sum": FREE, "SkipLayerNormalization": SLOW})
    made, report = surgeon.rewrite(parse(MODEL), "ort", measure=True, at=[{"rows": 4}], threads=1)
    assert {node.op_type for node in made.graph.node} == {"Gelu", "Sum", "LayerNormalization"}
    assert report.measurement.outcome == "not slower"


def test_graphs_are_equal_by_what_they_compute():
    """ONNX Runtime fuses the bias itself, and names do not count; the contents of constants do."""
    text = """<ir_version: 10, opset_import: ["": 20, "com.microsoft": 1]> g (float[n, 4] x) => (float[n, 4] y)
              <float[4] b = {1, 2, 3, 4}>"""
    apart = parse(text + "{ a = Add(x, b)  y = Gelu(a) }")
    renamed = parse(text + "{ q = Add(x, b)  y = Gelu(q) }")
    other = parse(text.replace("3, 4}", "3, 5}") + "{ a = Add(x, b)  y = Gelu(a) }")
    assert digest(apart.graph) == digest(renamed.graph) != digest(other.graph)
    assert graph_key(LoadedModel(apart)) == graph_key(LoadedModel(renamed)) != graph_key(LoadedModel(other))


def test_external_data_count_by_their_range(tmp_path):
    """The optimised graph is in another folder than the data."""
    (tmp_path / "w.data").write_bytes(np.arange(8, dtype=np.float32).tobytes())
    keys = []
    for body in ("a = Add(x, b)  y = Mul(a, c)", "q = Add(x, b)  y = Mul(q, c)", "a = Add(x, c)  y = Mul(a, b)"):
        model = parse(f'<ir_version: 10, opset_import: ["": 20]> g (float[n, 4] x) => (float[n, 4] y) {{ {body} }}')
        for place, name in enumerate("bc"):
            tensor = onnx.TensorProto(name=name, data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
            for key, value in (("location", "w.data"), ("offset", place * 16), ("length", 16)):
                tensor.external_data.add(key=key, value=str(value))
            model.graph.initializer.append(tensor)
        onnx.save(model, tmp_path / "m.onnx")
        keys.append(graph_key(LoadedModel(tmp_path / "m.onnx")))
    assert keys[0]
    assert keys[0] == keys[1] != keys[2]


def test_a_model_that_does_not_load_has_no_key():
    foreign = parse('<ir_version: 10, opset_import: ["": 20, "a": 1]> g (float[2] x) => (float[2] y) { y = a.B(x) }')
    assert graph_key(LoadedModel(foreign)) == ""
    assert peak_memory(LoadedModel(foreign, [{"x": np.zeros(2, np.float32)}])) is None


def test_the_memory_of_runs_is_measured():
    """The product has 16 MiB; only Linux counts."""
    text = '<ir_version: 10, opset_import: ["": 20]> g (float[n, 1] x) => (float y) '
    model = parse(text + "{ t = Transpose(x)  p = MatMul(x, t)  e = Exp(p)  y = ReduceMax<keepdims = 0>(e) }")
    found = peak_memory(LoadedModel(model, [{"x": np.zeros((2048, 1), np.float32)}]))
    assert found is None or 15 << 20 < found < 200 << 20
