"""`surgeon bench`: rounds by a clock that the test moves, options, and runs of tiny models."""

import gc
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import surgeon
from surgeon import ModelFileError, UsageError
from surgeon.cli.param_types import SHAPE
from surgeon.runtime.processes.worker import TaskResult
from surgeon.runtime.sessions.ort_session import TimedSession
from surgeon.runtime.timing import bench_tasks, load_batches
from surgeon.runtime.timing.latency import milliseconds_text
from surgeon.runtime.timing.rounds import MAX_REPEATS, WARM_UP, run_interleaved, undisturbed
from surgeon.runtime.timing.samples import EQUAL, FASTER, SLOWER, UNDECIDED
from surgeon.testing import parse
from tests.bench_results import bench_of, samples_of
from tests.command_line import gelus, one_sentence, result_in, run, save

WORK = "y = Relu(x)"
QUICK = {"loads": 1, "seconds": 0, "threads": 1}
OPTIONS = ("--loads", 1, "--seconds", 0, "--threads", 1)


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


def test_every_model_runs_once_in_each_round_in_alternating_order():
    clock = Clock()
    runs = [clock.runs(name, 1.0) for name in "abc"]
    times = run_interleaved(runs, clock=clock, rounds=4, order=[2, 0, 1])
    assert times == [[1.0] * 4] * 3
    assert "".join(clock.order) == "cab" * WARM_UP + "cabbaccabbac"


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_a_provider_that_cannot_work_here_is_refused():
    """ONNX Runtime takes the CPU's in its place, and the times would be called those of a GPU."""
    with pytest.raises(UsageError, match="ONNX Runtime's CUDA provider does not work on this machine"):
        TimedSession(parse(f"(float[n] x) => (float[n] y) {{ {WORK} }}"), provider="CUDAExecutionProvider")


def test_times_are_kept_by_model_whatever_the_order():
    clock = Clock()
    times = run_interleaved([clock.runs("a", 1.0), clock.runs("b", 3.0)], clock=clock, rounds=8, order=[1, 0])
    assert times == [[1.0] * 8, [3.0] * 8]


def test_first_runs_are_dropped():
    """What a model does slowly at first is not in its times."""
    clock = Clock()
    times = run_interleaved([clock.runs("a", *([50.0] * WARM_UP), 1.0)], clock=clock, rounds=4, order=[0])
    assert times == [[1.0] * 4]


def test_what_is_short_runs_several_times_for_one_reading():
    """A quarter of a millisecond: four calls, of which the mean counts; the same number for every model."""
    clock = Clock()
    runs = [clock.runs("a", 2.0**-12), clock.runs("b", 1.0)]
    times = run_interleaved(runs, clock=clock, rounds=3, order=[0, 1])
    assert clock.order.count("a") == clock.order.count("b") == WARM_UP + 3 * 4
    assert times[0] == pytest.approx([2.0**-12] * 3)


def test_what_takes_no_time_runs_no_more_than_so_often():
    clock = Clock()
    run_interleaved([clock.runs("a", 0.0)], clock=clock, rounds=1, order=[0])
    assert clock.order.count("a") == WARM_UP + MAX_REPEATS


def test_no_garbage_is_collected_meanwhile():
    clock, seen = Clock(), []

    def once():
        seen.append(gc.isenabled())
        clock.now += 1

    with undisturbed():
        run_interleaved([once], clock=clock, rounds=1, order=[0])
    assert not any(seen)
    assert gc.isenabled()


def test_any_two_models_can_be_compared_with_each_other():
    found = bench_of({"a": [1.0] * 8, "b": [2.0] * 8, "c": [4.0] * 8})
    assert [ratio.ratio for ratio in found.ratios] == pytest.approx([2.0, 4.0])
    assert found.ratio(2, 1).ratio == pytest.approx(2.0)
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

        def run(self, task):
            return TaskResult(*bench_tasks.measure(task.argument, lambda _: None))

        def end(self):
            pass

    monkeypatch.setattr(bench_tasks, "TimedSession", Ticking)
    monkeypatch.setattr(bench_tasks, "reset_cpu_limit", lambda _: None)  # it would end this process
    monkeypatch.setattr(bench_tasks, "time", SimpleNamespace(perf_counter=clock, time=clock))
    monkeypatch.setattr(load_batches, "Worker", Here)
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
    found = surgeon.bench(large, small, stack(60), at=[{"n": 64}, {"n": 2}], threads=1, loads=8, seconds=0)
    assert [latency.name for latency in found.models] == [str(large), str(small), "model 3"] * 2
    assert (found.shapes, found.sizes) == (({"n": 64}, {"n": 2}), {"n": 64})
    assert (len(found.samples), found.rounds) == (8, 24)
    assert [model.median for model in found.models] == pytest.approx([60.0, 1.0, 60.0] * 2)
    assert [ratio.verdict for ratio in found.ratios] == [FASTER, EQUAL] * 2
    assert [ratio.ratio for ratio in found.ratios] == pytest.approx([1 / 60, 1.0] * 2)
    assert [ratio.sizes["n"] for ratio in found.ratios] == [64, 64, 2, 2]
    assert found.ratio(0, 1).verdict == SLOWER


def test_the_table_and_the_exit_code(tmp_path):
    one, other = save(tmp_path, WORK, name="a.onnx"), save(tmp_path, "z = Neg(x) y = Relu(z)", name="b.onnx")
    result = run("bench", one, other, *OPTIONS, "--dim", "n=3")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["original,", "ms", "ms", "ratio", "95", "%", "interval"]
    assert lines[1].split()[0] == "b.onnx"
    assert " to " in lines[1]
    assert "1 load (3 rounds) under ONNX Runtime (cpu), 1 thread, n=3" in result.stdout


def test_the_table_of_several_shapes(tmp_path):
    """What differs is beside each ratio, and what does not is said once."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[n, m] x) => (float[n, m] y) { y = Relu(x) }"""
    path = tmp_path / "two.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    shapes = ("--at", "m=2", "--at", "m=300,n=5", "--dim", "n=5")
    result = run("bench", path, path, *shapes, *OPTIONS)
    lines = result.stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [["two.onnx", "m=2"], ["two.onnx", "m=300"]]
    assert "1 thread, n=5;" in result.stdout
    assert len(lines) <= 8
    data = result_in(run("bench", path, path, *shapes, *OPTIONS, "--json").stdout)
    assert data["shapes"] == [{"n": 5, "m": 2}, {"n": 5, "m": 300}]
    assert [ratio["sizes"]["m"] for ratio in data["ratios"]] == [2, 300]


def test_the_result_as_json(tmp_path):
    one, other = save(tmp_path, WORK, name="a.onnx"), save(tmp_path, WORK, name="b.onnx")
    result = run("bench", one, other, other, *OPTIONS, "--loads", 2, "--rounds", 4, "--dim", "n=2", "--json")
    assert result.exit_code == 0
    data = result_in(result.stdout)
    assert [model["model"] for model in data["models"]] == [str(one), str(other), str(other)]
    assert all([len(load) for load in model["ms"]] == [4, 4] for model in data["models"])
    assert [(ratio["verdict"], ratio["low"], ratio["high"]) for ratio in data["ratios"]] == [(UNDECIDED, 0, None)] * 2
    assert [state["loads"] for ratio in data["ratios"] for state in ratio["states"]] == [2, 2]
    assert data["interval"] == {"confidence": 0.95, "method": "sign test over the medians of the loads"}
    assert (data["rounds"], data["loads"], data["busy"]) == (8, 2, 0)


def printed(monkeypatch, tmp_path, measured, *options):
    """What the command prints of a result, and its exit code."""
    monkeypatch.setattr("surgeon.runtime.timing.bench.bench", lambda *_, **__: measured)
    result = run("bench", save(tmp_path, WORK), "b", *options)
    return result.stdout, result.exit_code


@pytest.mark.parametrize(("factor", "code"), [(2.0, 1), (1.0, 0), (0.5, 0)])
def test_slower_ends_with_1_where_it_is_asked_for(tmp_path, monkeypatch, factor, code):
    measured = bench_of({"a": [1.0] * 8, "b": [factor] * 8}, threads=0)
    assert printed(monkeypatch, tmp_path, measured)[1] == 0
    text, exit_code = printed(monkeypatch, tmp_path, measured, "--expect-not-slower")
    assert exit_code == code
    assert measured.ratios[0].verdict in text
    assert "a thread on each core" in text


def test_two_states_are_both_named(tmp_path, monkeypatch):
    """It is as fast in the usual one, and slower in the other, which counts."""
    measured = bench_of({"a": [6.1] * 8 + [9.3] * 7, "b": [6.1] * 8 + [10.0] * 7})
    text, code = printed(monkeypatch, tmp_path, measured, "--expect-not-slower")
    assert code == 1
    rows = [line.split()[1:4] for line in text.splitlines()[1:3]]
    assert rows == [["6.100", "6.100", "1.000"], ["9.300", "10.00", "1.075"]]
    ends = [line.strip().rpartition("  ")[2] for line in text.splitlines()[1:3]]
    assert ends == [f"{EQUAL} (fast state, 8 loads)", f"{SLOWER} (slow state, 7 loads)"]
    assert len(text.splitlines()) <= 8


def test_a_busy_machine_decides_nothing(tmp_path, monkeypatch):
    measured = bench_of({"a": [1.0] * 8, "b": [2.0] * 8}, threads=2, busy=0.47)
    text, code = printed(monkeypatch, tmp_path, measured, "--expect-not-slower")
    assert code == 0
    assert "UNDECIDED  other processes use 47 % of the processors" in text
    assert "Try again, or measure with --threads 1." in text
    assert "2.000" in text  # the milliseconds
    assert text.splitlines()[1].split() == ["b", "1.000", "2.000", UNDECIDED]
    assert [ratio.to_dict()["verdict"] for ratio in measured.ratios] == [UNDECIDED]


@pytest.fixture
def batches(monkeypatch):
    """Batches by a clock, each load of a second; the number of loads and the start of each."""
    clock, made = Clock(), []
    measured = SimpleNamespace(made=made, clock=clock, noise=0.0, idle=np.nan)

    def sample(asked, sizes):
        made.append((asked.loads, clock.now, asked.order))
        clock.now += asked.loads
        logs = [(0.0, measured.noise * (-1) ** load) for load in range(asked.loads)]
        return samples_of(logs, measured.idle)

    def sleep(seconds):
        clock.now += seconds

    monkeypatch.setattr(load_batches, "sample", sample)
    monkeypatch.setattr(load_batches, "time", SimpleNamespace(monotonic=clock, sleep=sleep))
    return measured


def loads_of(seconds, loads=12, threads=1):
    asked = bench_tasks.LoadRequest(["a", "b"], [], [{}], threads=threads)
    return len(load_batches.sample_until(asked, [{}], loads=loads, seconds=seconds, precision=0.01))


@pytest.mark.parametrize(
    ("loads", "seconds", "starts"),
    [
        (12, 30, [0, 15]),
        (24, 60, [0, 6, 12, 18]),
        (8, 30, [0, 15]),
        (6, 30, [0]),
        (12, 10, [0, 10]),
        (12, 0, [0, 6]),
    ],
)
def test_loads_are_spread(batches, loads, seconds, starts):
    """The last of the batches begins 15 s after the first or later, as far as the time allows."""
    assert loads_of(seconds, loads) == loads
    assert [start for _, start, _ in batches.made] == starts
    assert sum(count for count, _, _ in batches.made) == loads
    assert len({order for *_, order in batches.made}) == len(starts)


@pytest.mark.parametrize(("seconds", "loads"), [(0, 12), (30, 12), (33, 24), (56, 24), (57, 48)])
def test_a_ratio_that_is_not_known_gets_twice_the_loads(batches, seconds, loads):
    """21 s for 12 loads, 9 of them waited; 33 s for 24."""
    batches.noise = 0.1
    assert loads_of(seconds) == loads


@pytest.mark.parametrize(("idle", "threads", "loads"), [(0.5, 64, 12), (0.5, 1, 24), (1.0, 64, 24)])
def test_more_loads_do_not_help_on_a_busy_machine(batches, idle, threads, loads):
    batches.noise, batches.idle = 0.1, idle
    assert loads_of(33, threads=threads) == loads


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
    found = surgeon.bench(path, path, loads=1, seconds=0, cpu_time=True, dims={"n": 3})
    assert (found.threads, found.cpu_time) == (1, True)
    assert 0 < found.models[0].median < 1e3 * found.seconds
    options = ("--cpu-time", *OPTIONS[:4], "--dim", "n=3")
    assert "of the processor time" in run("bench", path, path, *options).stdout


def test_own_inputs(tmp_path):
    path, data = save(tmp_path, WORK), tmp_path / "x.npz"
    np.savez(data, x=np.ones((7, 4), np.float32))
    found = surgeon.bench(path, path, inputs=data, **QUICK)
    assert found.sizes == {}
    np.savez(data, x=np.ones((7, 5), np.float32))
    with pytest.raises(UsageError, match=r"has shape \[7, 5\]"):
        surgeon.bench(path, path, inputs=data)
    with pytest.raises(UsageError, match="cannot be combined"):
        surgeon.bench(path, path, inputs=data, at=[{"n": 7}])


def test_words(tmp_path):
    """ORT makes no values of its own of them."""
    text = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]> g (string[n] x) => (int64[n] y)
        { y = ai.onnx.ml.LabelEncoder<keys_strings = ["a", "b"], values_int64s = [1, 2]>(x) }"""
    path = tmp_path / "words.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    assert surgeon.bench(path, path, **QUICK, dims={"n": 3}).sizes == {"n": 3}


def test_a_dimension_that_the_other_model_fixes(tmp_path):
    """It is run at that size alone."""
    fixed = onnx.load(save(tmp_path, WORK, name="fixed.onnx"))
    fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 9
    found = surgeon.bench(save(tmp_path, WORK), fixed, **QUICK)
    assert found.sizes == {"n": 9}


def test_a_size_that_the_nodes_determine(tmp_path):
    path = save(tmp_path, "shape = Constant<value_ints = [4, 4]>() r = Reshape(x, shape) y = Relu(r)")
    assert surgeon.bench(path, path, **QUICK).sizes == {"n": 4}


PAST = """<ir_version: 10, opset_import: ["" : 18]>
    g (float[batch, new] x, float[batch, past] cache, float[batch, z] mask) => (float[batch, t] y) {
    all = Concat<axis = 1>(cache, x) y = Add(all, mask) }"""


@pytest.mark.parametrize("total", ["total", "all", "past + new", ""])
def test_sizes_that_follow_are_left_out(tmp_path, total):
    """By what nodes need, or by an expression; whatever the dim is called."""
    path, key, model = tmp_path / "past.onnx", total or "mask[1]", onnx.parser.parse_model(PAST)
    model.graph.input[2].type.tensor_type.shape.dim[1].dim_param = total
    onnx.save(model, path)
    shapes = [{"past": 7, "new": 1}, {"past": 0, "new": 5}]
    assert [one[key] for one in surgeon.bench(path, path, dims={"batch": 1}, at=shapes, **QUICK).shapes] == [8, 5]
    said = one_sentence(run("bench", path, path, "--at", f"batch=1,past=7,new=1,{key}=6"), 2)
    assert f"past.onnx does not run at {key} = 6: new + past is 8. Give sizes that agree" in said
    said = one_sentence(run("bench", path, path, "--at", "batch=1,past=7"), 2)
    assert "The dynamic dimension 'new' of input 'x' has no size." in said
    assert said.rstrip().endswith("--at batch=1,past=7,new=N")


def test_a_total_that_no_node_determines(tmp_path):
    """Its name does."""
    text = """<ir_version: 10, opset_import: ["" : 18]>
        g (float[past] cache, float[new_tokens] x, float[total] mask) => (float[past] a, float[n] b, float[t] c) {
            a = Relu(cache) b = Relu(x) c = Relu(mask) }"""
    path = tmp_path / "past.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    assert surgeon.bench(path, path, dims={"past": 7, "new_tokens": 1}, **QUICK).sizes["total"] == 8


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
        ((path, unknown, "--dim", "n=2"), "ONNX Runtime cannot load"),
        ((path, refused, "--dim", "n=5"), "does not run on these inputs"),
        ((path, path), "dimension 'n' of input 'x' has no size. Give the sizes of your deployment: --at n=N"),
        ((path, path, "--at", "n=2", "--at", "k=2"), "No input has a dynamic dimension 'k'"),
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


@pytest.mark.parametrize("text", ["n", "n=", "n=2,", "n=2,m", "n=x", "n=-1"])
def test_what_is_no_shape_is_refused(tmp_path, text):
    path = save(tmp_path, WORK)
    result = run("bench", path, path, "--at", text)
    assert result.exit_code == 2
    assert f"expected NAME=N,NAME=N,... with integers (for example batch=1,sequence=128), got '{text}'" in result.stderr


def test_a_comma_in_a_name_stays():
    assert SHAPE.convert("Max(2, s0)=3, x[0] = 4", None, None) == {"Max(2, s0)": 3, "x[0]": 4}


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
    reported = one_sentence(run("bench", good, path, "--dim", "n=2", "--run-time", 0.3), 2)
    assert "endless.onnx: a run takes more than 0.3 s" in reported
    assert "--run-time 1.5" in reported


def test_a_model_that_ends_its_process(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4] x) => (int64[1] z, float[n, 4] y)
        <int64[1] low = {-9223372036854775808}, int64[1] one = {-1}> { y = Relu(x) s = Shape(x) two = Size(s)
        zero = Sub(two, two) least = Add(zero, low) z = Div(least, one) }"""
    path, good = tmp_path / "crash.onnx", save(tmp_path, WORK)
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    assert "crash.onnx: a run ended its process with SIG" in one_sentence(run("bench", good, path, "--dim", "n=2"), 2)
