"""`surgeon bench`: rounds by a clock that the test moves, intervals by hand, and runs of tiny models."""

import gc
from importlib import import_module
from itertools import pairwise
from math import comb, inf
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import surgeon
from surgeon import ModelFileError, UsageError
from surgeon.runtime.processes.worker import TaskResult
from surgeon.runtime.sessions.ort_session import TimedSession
from surgeon.runtime.timing import bench_tasks
from surgeon.runtime.timing.latency import (
    EQUAL,
    FASTER,
    SLOWER,
    Bench,
    Latency,
    interval_of,
    milliseconds_text,
    ratio_of,
)
from surgeon.runtime.timing.rounds import MAX_REPEATS, WARM_UP, run_interleaved
from surgeon.testing import parse
from tests.command_line import gelus, one_sentence, result_in, run, save

WORK = "y = Relu(x)"
QUICK = ("--rounds", 6, "--seconds", 0, "--threads", 1)


class Clock:
    """A clock that only what runs can move; it keeps the order of the runs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order: list[str] = []

    def __call__(self) -> float:
        return self.now

    def runs(self, name, *seconds):
        """A run that takes these seconds in turn, the last of them for ever."""
        left = list(seconds)

        def once():
            self.order.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return once


def never(_):
    return False


def test_every_model_runs_once_in_each_round_in_changing_order():
    clock = Clock()
    runs = [clock.runs(name, 1.0) for name in "abc"]
    times = run_interleaved(runs, clock=clock, rounds=20, seconds=0, enough=never)
    assert [len(series) for series in times] == [20, 20, 20]
    measured = clock.order[WARM_UP * 3 :]
    rounds = ["".join(measured[start : start + 3]) for start in range(0, 60, 3)]
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    assert len(set(rounds)) > 3


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_a_provider_that_cannot_work_here_is_refused():
    """ONNX Runtime takes the CPU's in its place, and the times would be called those of a GPU."""
    with pytest.raises(UsageError, match="ONNX Runtime's CUDA provider does not work on this machine"):
        TimedSession(parse(f"(float[n] x) => (float[n] y) {{ {WORK} }}"), provider="CUDAExecutionProvider")



def test_times_are_kept_by_model_whatever_the_order():
    clock = Clock()
    times = run_interleaved(
        [clock.runs("a", 1.0), clock.runs("b", 3.0)], clock=clock, rounds=8, seconds=0, enough=never, seed=5
    )
    assert times == [[1.0] * 8, [3.0] * 8]


def test_the_order_follows_from_the_seed():
    def order(seed):
        clock = Clock()
        run_interleaved(
            [clock.runs("a", 1.0), clock.runs("b", 1.0)], clock=clock, rounds=12, seconds=0, enough=never, seed=seed
        )
        return clock.order

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_first_rounds_are_dropped():
    """What a model does slowly at first is not in its times."""
    clock = Clock()
    times = run_interleaved([clock.runs("a", *([50.0] * WARM_UP), 1.0)], clock=clock, rounds=4, seconds=0, enough=never)
    assert times == [[1.0] * 4]


def test_rounds_go_on_until_they_are_enough():
    clock = Clock()
    seen = []

    def enough(times):
        seen.append(len(times[0]))
        return len(seen) == 3

    times = run_interleaved([clock.runs("a", 1.0)], clock=clock, rounds=10, seconds=inf, enough=enough)
    assert seen == [10, 15, 20]
    assert len(times[0]) == 20


def test_rounds_end_when_the_time_is_over():
    clock = Clock()
    times = run_interleaved([clock.runs("a", 1.0)], clock=clock, rounds=2, seconds=30, enough=never)
    assert len(times[0]) == 30 - WARM_UP


def test_the_time_that_is_over_may_be_by_another_clock():
    """Processor time is measured, and a person waits for the wall's."""
    clock, wall = Clock(), Clock()
    inner = clock.runs("a", 1.0)

    def once():
        inner()
        wall.now += 3

    times = run_interleaved([once], clock=clock, rounds=2, seconds=30, enough=never, wall=wall)
    assert times == [[1.0] * (10 - WARM_UP)]


def test_what_is_short_runs_several_times_for_one_reading():
    """A quarter of a millisecond: four calls, of which the mean counts; the same number for every model."""
    clock = Clock()
    runs = [clock.runs("a", 2.0**-12), clock.runs("b", 1.0)]
    times = run_interleaved(runs, clock=clock, rounds=3, seconds=0, enough=never)
    assert clock.order.count("a") == clock.order.count("b") == WARM_UP + 3 * 4
    assert times[0] == pytest.approx([2.0**-12] * 3)


def test_what_takes_no_time_runs_no_more_than_so_often():
    clock = Clock()
    run_interleaved([clock.runs("a", 0.0)], clock=clock, rounds=1, seconds=0, enough=never)
    assert clock.order.count("a") == WARM_UP + MAX_REPEATS


def test_no_garbage_is_collected_meanwhile():
    clock, seen = Clock(), []

    def once():
        seen.append(gc.isenabled())
        clock.now += 1

    run_interleaved([once], clock=clock, rounds=1, seconds=0, enough=never)
    assert not any(seen)
    assert gc.isenabled()


@pytest.mark.parametrize("count", [6, 7, 20, 101])
def test_the_interval_is_that_of_the_sign_test(count):
    """Its ends are the k-th from either side, k the largest for which at most 2.5 % have fewer on one side."""
    found = interval_of(list(range(count, 0, -1)))
    k = int(found.low)
    assert found.high == count + 1 - k
    assert sum(comb(count, place) for place in range(k)) / 2**count <= 0.025
    assert sum(comb(count, place) for place in range(k + 1)) / 2**count > 0.025


def test_few_numbers_tell_nothing():
    assert interval_of([1.0, 1.0, 1.0, 1.0, 1.0]) == (1.0, 0.0, inf)


def test_the_interval_holds_the_true_median_in_95_of_100_cases():
    """Of skewed numbers, too: no shape is assumed."""
    random = np.random.default_rng(0)
    intervals = [interval_of(random.lognormal(0.0, 0.5, 25)) for _ in range(2000)]
    held = sum(found.low <= 1 <= found.high for found in intervals)
    assert 0.94 < held / 2000 < 0.98


def series(name, *milliseconds):
    return Latency(name, (milliseconds,))


@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.9, FASTER), (1.1, SLOWER), (1.0, EQUAL), (1.005, EQUAL), (0.995, EQUAL)]
)
def test_the_verdict(factor, verdict):
    """A difference below a per cent is none, however sure it is."""
    base = [10.0 + place % 7 for place in range(40)]
    found = ratio_of(series("out", *(factor * time for time in base)), series("in", *base))
    assert found.ratio == pytest.approx(factor)
    assert found.verdict == verdict


def test_pairs_see_through_a_machine_that_slows_down():
    """Both take ten times as long in the second half; round by round the one still takes 0.9 of the other."""
    base = [1.0] * 20 + [10.0] * 20
    found = ratio_of(series("out", *(0.9 * time for time in base)), series("in", *base))
    assert (found.low, found.high) == pytest.approx((0.9, 0.9))
    assert found.precision == pytest.approx(0)


def test_loads_that_disagree_make_the_interval_wide():
    """Two loads find 0.97 and one finds 1.01, each in every round: there is no telling."""
    reference = Latency("in", ((1.0,) * 10,) * 3)
    found = ratio_of(Latency("out", ((0.97,) * 10, (1.01,) * 10, (0.97,) * 10)), reference)
    assert (found.ratio, found.low, found.high) == (0.97, 0.97, 1.01)
    assert found.verdict == EQUAL
    assert ratio_of(Latency("out", ((0.97,) * 10, (0.98,) * 10, (0.97,) * 10)), reference).verdict == FASTER


def test_noise_is_no_difference():
    random = np.random.default_rng(3)
    ours, theirs = (series(name, *(10 * random.lognormal(0.0, 0.4, 30))) for name in ("out", "in"))
    assert ratio_of(ours, theirs).verdict == EQUAL


def test_any_two_models_can_be_compared_with_each_other():
    models = (series("a", *[1.0] * 8), series("b", *[2.0] * 8), series("c", *[4.0] * 8))
    found = Bench(models, {}, 1, "cpu", 1.0)
    assert [ratio.ratio for ratio in found.ratios] == [2.0, 4.0]
    assert found.ratio(2, 1).ratio == 2.0
    assert (found.ratio(2, 1).model, found.ratio(2, 1).reference) == ("c", "b")


def test_bench_of_tiny_models(tmp_path, monkeypatch):
    """Real runs of two models in files and one in memory, by a clock on which each node takes a millisecond."""
    clock = Clock()

    class Ticking(TimedSession):
        def __init__(self, model, *arguments, **settings):
            super().__init__(model, *arguments, **settings)
            proto = model if isinstance(model, onnx.ModelProto) else onnx.load(model)
            self.seconds = 1e-3 * len(proto.graph.node)

        def bind_inputs(self, feeds):
            really, tick = super().bind_inputs(feeds), clock.runs("", self.seconds)
            return lambda: (really(), tick())

    class Here:
        """In place of a child, to which the clock cannot be given."""

        is_alive = True

        def run(self, task):
            value, arrays = getattr(bench_tasks, task.function.partition(":")[2])(task.argument, lambda _: None)
            return TaskResult(value, arrays)

    monkeypatch.setattr(bench_tasks, "TimedSession", Ticking)
    monkeypatch.setattr(bench_tasks, "reset_cpu_limit", lambda _: None)  # it would end this process
    monkeypatch.setattr(bench_tasks, "time", SimpleNamespace(perf_counter=clock, process_time=clock))
    module = import_module("surgeon.runtime.timing.bench")
    monkeypatch.setattr(module, "acquire_worker", Here)
    monkeypatch.setattr(module, "release_worker", lambda _: None)
    square = ", ".join(["0.01"] * 128 * 128)
    weight = f"float[128, 128] w = {{{square}}}"
    head = "(float[n, 128] x) => (float[n, 128] y)"

    def stack(count):
        names = ["x", *(f"h{place}" for place in range(1, count)), "y"]
        body = " ".join(f"{b} = MatMul({a}, w)" for a, b in pairwise(names))
        return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {head} <{weight}> {{ {body} }}')

    small, large = tmp_path / "small.onnx", tmp_path / "large.onnx"
    small.write_bytes(stack(1).SerializeToString())
    large.write_bytes(stack(60).SerializeToString())
    found = surgeon.bench(large, small, stack(60), dims={"n": 64}, threads=1, rounds=10, seconds=2)
    assert [latency.name for latency in found.models] == [str(large), str(small), "model 3"]
    assert found.sizes == {"n": 64}
    assert found.rounds >= 10
    assert [model.median for model in found.models] == pytest.approx([60.0, 1.0, 60.0])
    assert [ratio.verdict for ratio in found.ratios] == [FASTER, EQUAL]
    assert [ratio.ratio for ratio in found.ratios] == pytest.approx([1 / 60, 1.0])
    assert found.ratio(0, 1).verdict == SLOWER


def test_the_table_and_the_exit_code(tmp_path):
    one, other = save(tmp_path, WORK, name="a.onnx"), save(tmp_path, "z = Neg(x) y = Relu(z)", name="b.onnx")
    result = run("bench", one, other, *QUICK, "--dim", "n=3")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["ms", "median", "p5", "p25", "p75", "p95", "ratio", "95", "%", "interval"]
    assert lines[1].split()[0] == "a.onnx"
    assert lines[2].split()[0] == "b.onnx"
    assert " to " in lines[2]
    assert "6 in 3 loads under ONNX Runtime (cpu), 1 thread, n = 3" in result.stdout


def test_the_result_as_json(tmp_path):
    one, other = save(tmp_path, WORK, name="a.onnx"), save(tmp_path, WORK, name="b.onnx")
    result = run("bench", one, other, other, *QUICK, "--json")
    assert result.exit_code == 0
    data = result_in(result.stdout)
    assert [model["model"] for model in data["models"]] == [str(one), str(other), str(other)]
    assert all([len(load) for load in model["ms"]] == [2, 2, 2] for model in data["models"])
    assert {ratio["verdict"] for ratio in data["ratios"]} <= {FASTER, SLOWER, EQUAL}
    assert data["interval"] == {"confidence": 0.95, "method": "sign test, and the medians of the loads"}
    assert (data["rounds"], data["loads"]) == (6, 3)


@pytest.mark.parametrize(("factor", "code"), [(2.0, 1), (1.0, 0), (0.5, 0)])
def test_slower_ends_with_1_where_it_is_asked_for(tmp_path, monkeypatch, factor, code):
    measured = Bench((series("a", *[1.0] * 8), series("b", *[factor] * 8)), {}, 0, "cpu", 1.0)
    monkeypatch.setattr("surgeon.runtime.timing.bench.bench", lambda *_, **__: measured)
    path = save(tmp_path, WORK)
    assert run("bench", path, path).exit_code == 0
    result = run("bench", path, path, "--expect-not-slower")
    assert result.exit_code == code
    assert measured.ratios[0].verdict in result.stdout
    assert "a thread on each core" in result.stdout


def test_ops_in_python_files_cannot_be_timed(tmp_path):
    """ONNX Runtime runs the models, and cannot run Python."""
    file = tmp_path / "ops.py"
    file.write_text("import surgeon\n\n@surgeon.implements('mine::op')\ndef op(x):\n    return x\n")
    path = gelus(tmp_path)
    message = one_sentence(run("bench", path, path, "--custom-ops", file), 2)
    assert "Ops that a Python file implements cannot be timed" in message


def test_numbers_have_the_digits_that_they_are_worth():
    assert [milliseconds_text(time) for time in (0.12345, 12.345, 1234.5)] == ["0.123", "12.35", "1234.5"]


def test_processor_time(tmp_path):
    """It is that of one thread, and less than has passed."""
    path = save(tmp_path, WORK)
    found = surgeon.bench(path, path, rounds=6, seconds=0, cpu_time=True)
    assert (found.threads, found.cpu_time) == (1, True)
    assert 0 < found.models[0].median < 1e3 * found.seconds
    assert "of the processor time" in run("bench", path, path, "--cpu-time", "--rounds", 6, "--seconds", 0).stdout


def test_own_inputs(tmp_path):
    path, data = save(tmp_path, WORK), tmp_path / "x.npz"
    np.savez(data, x=np.ones((7, 4), np.float32))
    found = surgeon.bench(path, path, inputs=data, rounds=6, seconds=0, threads=1)
    assert found.sizes == {}
    np.savez(data, x=np.ones((7, 5), np.float32))
    with pytest.raises(UsageError, match=r"has shape \[7, 5\]"):
        surgeon.bench(path, path, inputs=data)


def test_words(tmp_path):
    """ORT makes no values of its own of them."""
    text = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]> g (string[n] x) => (int64[n] y)
        { y = ai.onnx.ml.LabelEncoder<keys_strings = ["a", "b"], values_int64s = [1, 2]>(x) }"""
    path = tmp_path / "words.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    assert surgeon.bench(path, path, rounds=6, seconds=0, threads=1, dims={"n": 3}).sizes == {"n": 3}


def test_a_dimension_that_the_other_model_fixes(tmp_path):
    """It is run at that size alone."""
    fixed = onnx.load(save(tmp_path, WORK, name="fixed.onnx"))
    fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 9
    found = surgeon.bench(save(tmp_path, WORK), fixed, rounds=6, seconds=0, threads=1)
    assert found.sizes == {"n": 9}


def test_sizes_that_the_model_refuses_give_way_to_others(tmp_path):
    body = "shape = Constant<value_ints = [4, 4]>() r = Reshape(x, shape) y = Relu(r)"
    path = save(tmp_path, body)
    assert surgeon.bench(path, path, rounds=6, seconds=0, threads=1).sizes == {"n": 4}


def test_what_makes_no_sense_is_refused_in_one_sentence(tmp_path):
    path = save(tmp_path, WORK)
    other = onnx.load(path)
    other.graph.input[0].name = other.graph.node[0].input[0] = "other"
    (tmp_path / "other.onnx").write_bytes(other.SerializeToString())
    unknown = save(tmp_path, "y = my.Thing(x)", imports=', "my" : 1', name="unknown.onnx")
    refused = save(tmp_path, "s = Constant<value_ints = [3, 7]>() y = Reshape(x, s)", name="refused.onnx")
    doubles = onnx.load(path)
    doubles.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    onnx.save(doubles, tmp_path / "doubles.onnx")
    doubles.graph.input[0].type.CopyFrom(onnx.helper.make_sequence_type_proto(doubles.graph.output[0].type))
    doubles.graph.node[0].CopyFrom(onnx.helper.make_node("SequenceAt", ["x", "n"], list(doubles.graph.node[0].output)))
    doubles.graph.initializer.append(onnx.numpy_helper.from_array(np.array(0), "n"))
    onnx.save(doubles, tmp_path / "sequence.onnx")
    cases = (
        ((path, tmp_path / "doubles.onnx"), "in.onnx, but float64 in "),
        ((tmp_path / "sequence.onnx",) * 2, "is a sequence, and surgeon generates only tensors."),
        ((path, tmp_path / "other.onnx"), "do not have the same inputs ('other', 'x')"),
        ((path, unknown), "ONNX Runtime cannot load"),
        ((path, refused), "does not run on these inputs"),
        ((path, path, "--dim", "m=2"), "No input has a dynamic dimension 'm'"),
        ((path, path, "--ep", "npu"), "has no execution provider 'npu'"),
        ((path, path, "--threads", "-1"), "Invalid number of threads -1"),
        ((path, path, "--rounds", "0"), "Invalid number of rounds 0"),
        ((path, path, "--loads", "0"), "Invalid number of loads 0"),
        ((path, path, "--seconds", "-1"), "Invalid number of seconds -1.0"),
        ((path, path, "--precision", "-1"), "Invalid precision -1.0"),
        ((path, path, "--cpu-time", "--threads", "2"), "Processor time needs one thread"),
        ((path, path, "--seed", "-1"), "Invalid seed -1"),
        ((path, tmp_path / "none.onnx"), "none.onnx"),
    )
    for arguments, words in cases:
        assert words in one_sentence(run("bench", *arguments), 2)


def test_two_packages_of_one_runtime_are_reported(tmp_path, monkeypatch):
    """The one with CUDA was installed, and then overwritten."""
    monkeypatch.setattr("surgeon.runtime.timing.bench.runtimes", lambda: ["onnxruntime", "onnxruntime-gpu"])
    path = save(tmp_path, WORK)
    reported = one_sentence(run("bench", path, path, "--ep", "cuda"), 2)
    assert "'cuda' (onnxruntime and onnxruntime-gpu overwrite each other: reinstall one of them)" in reported


def test_one_model_is_not_enough(tmp_path):
    with pytest.raises(UsageError, match="Give two or more"):
        surgeon.bench(save(tmp_path, WORK))
    assert run("bench", save(tmp_path, WORK)).exit_code == 2


def test_a_file_that_is_no_model(tmp_path):
    (tmp_path / "text.onnx").write_text("nothing")
    with pytest.raises(ModelFileError):
        surgeon.bench(gelus(tmp_path), tmp_path / "text.onnx")


def test_a_model_that_runs_on_and_on(tmp_path):
    """One run has its time, and whose it was is told."""
    endless = "count = Constant<value_int = 1000000000000>() go = Constant<value = bool {1}>()"
    path, good = tmp_path / "endless.onnx", save(tmp_path, WORK)
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4] x) => (float[n, 4] y) {{
        {endless} y = Loop(count, go, x) <body = b (int64 i, bool c, float[n, 4] h) => (bool c2, float[n, 4] h2)
            {{ c2 = Identity(c) h2 = Relu(h) }}> }}"""
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    reported = one_sentence(run("bench", good, path, "--run-time", 0.3), 2)
    assert "endless.onnx: a run takes more than 0.3 s" in reported
    assert "--run-time 1.5" in reported


def test_a_model_that_ends_its_process(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4] x) => (int64[1] z, float[n, 4] y)
        <int64[1] low = {-9223372036854775808}, int64[1] one = {-1}> { y = Relu(x) s = Shape(x) two = Size(s)
        zero = Sub(two, two) least = Add(zero, low) z = Div(least, one) }"""
    path, good = tmp_path / "crash.onnx", save(tmp_path, WORK)
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    assert "crash.onnx: a run ended its process with SIG" in one_sentence(run("bench", good, path), 2)
