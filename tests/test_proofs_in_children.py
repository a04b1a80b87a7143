"""Proofs run in children: what crashes, hangs or takes all memory there is unproved, and the rewrite goes on."""

import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest

import surgeon
from surgeon import CheckOptions, Graph, Tensor, UsageError, rule
from surgeon.proof.check_result import Outcome
from surgeon.proof.proof_case import CaseInput, ProofCase, ProofOptions, RegionModels
from surgeon.proof.site import worker_proofs
from surgeon.runtime.processes import worker, worker_pool
from surgeon.runtime.processes.worker import TaskFailure, TaskResult
from surgeon.shapes.algebra.size_expressions import symbol
from surgeon.testing import parse
from tests.command_line import run
from tests.test_worker_processes import ROOT, ends

LOWEST = -(2**63)
TWICE = "(float[n, 4] x) => (float[n, 4] y) { a = Relu(x) y = Relu(a) }"

posix = pytest.mark.skipif(os.name != "posix", reason="signals and limits of processes")


@rule(patterns=[lambda g, x: g.relu(g.relu(x))])
def relu_once(g: Graph, x: Tensor) -> Tensor:
    """Right, whatever the shape."""
    return g.relu(x)


@rule(patterns=[lambda g, x, low, one: g.neg(g.add(x, g.div(low, one)))])
def negated(g: Graph, x: Tensor, low: Tensor, one: Tensor) -> Tensor:
    """Right, if it can be run."""
    return g.sub(g.neg(x), g.div(low, one))


@rule(patterns=[lambda g, x: g.relu(g.neg(x))])
def divides(g: Graph, x: Tensor) -> Tensor:
    """Ends the process that runs it."""
    quotient = g.div(np.array([LOWEST]), np.array([-1]))
    return g.add(g.max(g.neg(x), 0.0), g.cast_like(quotient, x))


def proved(model, rules, **options):
    """The outcome and the reason of each site."""
    _, report = surgeon.rewrite(parse(model), rules, keep_going=True, options=CheckOptions(**options))
    return [(site.proof.outcome, site.proof.reason) for site in (*report.sites, *report.rolled_back)]


@posix
def test_a_model_whose_constants_crash_onnx_runtime_is_unproved():
    """INT64_MIN / -1 ends a process with SIGFPE: this one lives, and proves what comes behind."""
    text = f"""(int64[n] x, float[n, 4] u) => (int64[n] y, float[n, 4] w) <int64 low = {{{LOWEST}}}, int64 one = {{-1}}>
        {{ d = Div(low, one) a = Add(x, d) y = Neg(a) b = Relu(u) w = Relu(b) }}"""
    assert proved(text, [negated, relu_once], jobs=1) == [
        (Outcome.UNPROVED, "the original crashes its process with SIGFPE"),
        (Outcome.PROVED, ""),
    ]


@posix
def test_a_replacement_that_crashes_where_the_original_runs_fails():
    ((outcome, reason),) = proved("(float[n, 4] x) => (float[n, 4] y) { a = Neg(x) y = Relu(a) }", divides)
    assert (outcome, reason) == (
        Outcome.FAILED,
        "the replacement crashes its process with SIGFPE, but the original does not",
    )


@posix
def test_a_proof_that_takes_too_long_is_unproved():
    ((outcome, reason),) = proved(TWICE, relu_once, proof_time=0.001)
    assert outcome is Outcome.UNPROVED
    assert reason.startswith("its proof was stopped after 0.001 s")
    assert reason.endswith(". Use smaller sizes (--dim n=2) or more time (--proof-time 0.006)")
    assert proved(TWICE, relu_once) == [(Outcome.PROVED, "")]


ENDLESS = """
import os
from pathlib import Path
import surgeon

@surgeon.implements("test.customop::Endless")
def endless(x):
    (Path(__file__).parent / "pid").write_text(str(os.getpid()))
    while True:
        pass
"""


@posix
def test_an_endless_implementation_is_cut_off_with_all_that_it_started(tmp_path, monkeypatch):
    """It does not take the proof's own processor time: the clock ends it."""

    @rule(patterns=[lambda g, x: g.relu(g.relu(x))])
    def endless(g: Graph, x: Tensor) -> Tensor:
        return g.op("test.customop::Endless", x)

    (tmp_path / "ops.py").write_text(ENDLESS)
    assert proved(TWICE, relu_once) == [(Outcome.PROVED, "")]  # a child is there, and stands in this folder
    monkeypatch.chdir(tmp_path)
    ((outcome, reason),) = proved(TWICE, endless, custom_ops=["ops.py"], proof_time=2.0)
    assert outcome is Outcome.UNPROVED
    assert reason.startswith("its proof was stopped after 12 s of wall time. Use smaller sizes (--dim n=2) or more ")
    assert ends(int((tmp_path / "pid").read_text()))


@posix
def test_a_proof_that_takes_too_much_memory_is_unproved():
    """The tensor in between takes 64 TB, whatever the sizes of the inputs."""

    @rule(patterns=[lambda g, x, shape: g.reduce_max(g.expand(x, shape), keepdims=0)])
    def unexpanded(g: Graph, x: Tensor, shape: Tensor) -> Tensor:
        return g.reduce_max(x, keepdims=0)

    text = f"""(float[n, 1] x) => (float y) <int64[3] shape = {{{1 << 22}, 1, {1 << 22}}}>
        {{ e = Expand(x, shape) y = ReduceMax<keepdims = 0>(e) }}"""
    ((outcome, reason),) = proved(text, unexpanded)
    assert outcome is Outcome.UNPROVED
    assert "not enough memory to run the model" in reason


DISTINCT = " ".join(f"a{n} = Relu(x{n}) y{n} = Relu(a{n})" for n in range(6))
MANY = f"""({", ".join(f"float[n, {n + 2}] x{n}" for n in range(6))}) =>
    ({", ".join(f"float[n, {n + 2}] y{n}" for n in range(6))}) {{ {DISTINCT} }}"""


def test_reports_are_equal_whatever_the_number_of_jobs():
    @rule(patterns=[lambda g, x: g.relu(g.relu(x))])
    def clipped(g: Graph, x: Tensor) -> Tensor:
        """Wrong for some."""
        return g.clip(x, 0.0, 3.0)

    def reported(rules, jobs):
        _, report = surgeon.rewrite(parse(MANY), rules, keep_going=True, options=CheckOptions(jobs=jobs))
        return json.loads(json.dumps(report.to_dict()), object_hook=without_seconds)

    def without_seconds(found):
        return {name: value for name, value in found.items() if name != "seconds"}

    for rules in (relu_once, clipped):
        one, three = (reported(rules, jobs) for jobs in (1, 3))
        assert one == three
        assert len(one["proofs"] or one["rolled_back"]) == 6


def test_a_second_rewrite_finds_the_child_of_the_first():
    proved(TWICE, relu_once, jobs=1)
    first = worker.idle_process_ids()
    proved(TWICE, relu_once, jobs=1)
    assert first
    assert worker.idle_process_ids() == first


STARTS = """
import sys
import surgeon
from surgeon.testing import parse

@surgeon.rule(patterns=[lambda g, x: g.relu(g.relu(x))])
def relu_once(g, x):
    return g.relu(x)

model = parse({model!r})
_, report = surgeon.rewrite(model, relu_once, **{settings})
print(len(report.sites), report.outcome, len(getattr(sys.modules.get("surgeon.runtime.processes.worker"), "_idle", ())))
"""
UNLIKE = "(float[n, 4] x) => (float[n, 4] y) { a = Relu(x) y = Neg(a) }"


def printed(code, *arguments, **options):
    """What a script says; on standard error it must say nothing."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, *arguments], input=code, capture_output=True, text=True, env=environment, **options
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.split()


@pytest.mark.parametrize(
    ("model", "settings", "said"),
    [
        (TWICE, {}, ["1", "proved", "1"]),
        (TWICE, {"check": "none"}, ["1", "unchecked", "1"]),  # the result is loaded all the same
        (TWICE, {"dry_run": True}, ["1", "unchecked", "0"]),
        (UNLIKE, {}, ["0", "unchanged", "0"]),
    ],
    ids=["proofs", "none", "dry", "nothing"],
)
def test_children_start_only_where_there_is_something_to_prove_or_to_load(model, settings, said):
    """The script comes from standard input, where no child could run it again."""
    assert printed(STARTS.format(model=model, settings=settings), "-") == said


def test_no_child_runs_the_script_of_the_user(tmp_path):
    """A script without a guard runs once."""
    script = tmp_path / "script.py"
    text = STARTS.format(model=TWICE, settings={})
    script.write_text(f"from pathlib import Path\nPath(__file__).with_suffix('.runs').open('a').write('x')\n{text}")
    assert printed("", str(script), cwd=tmp_path) == ["1", "proved", "1"]
    assert (tmp_path / "script.runs").read_text() == "x"


def test_neighbours_of_a_script_hide_nothing_from_a_child(tmp_path):
    """A module of the user's with the name of one of ours, or of Python's, is nothing to a child."""
    for name in ("numpy", "json", "signal"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not this one')")
    (tmp_path / "script.py").write_text("import sys\nsys.path.pop(0)\n" + STARTS.format(model=TWICE, settings={}))
    assert printed("", "script.py", cwd=tmp_path) == ["1", "proved", "1"]


UNRANKED = f"""(float[n, 1, 4] x) => (float[k, 4] y) <int64 low = {{{LOWEST}}}, int64 one = {{%d}}>
    {{ d = Div(low, one) c = Cast<to = 1>(d) s = Add(x, c) q = Squeeze(s) a = Relu(q) y = Relu(a) }}"""


def unranked(divisor):
    """A model in which a run alone tells the rank of what the region reads, and where that run divides by a number."""
    model = parse(UNRANKED % divisor)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return surgeon.rewrite(model, relu_once)[1].sites[0].proof


def test_a_rank_that_only_a_run_reports_is_asked_of_a_child(monkeypatch):
    asked = []
    run_tasks = worker_pool.run
    monkeypatch.setattr(worker_pool, "run", lambda tasks, jobs: run_tasks(asked.append(list(tasks)) or asked[-1], jobs))
    assert unranked(2).outcome is Outcome.PROVED
    assert [task.function for tasks in asked for task in tasks] == [
        f"{worker_proofs.MODULE}:{name}" for name in ("trace", "prove")
    ]


@posix
def test_a_run_that_crashes_reports_no_rank():
    proof = unranked(-1)
    assert proof.outcome is Outcome.UNPROVED
    assert proof.reason == (
        "the rank of 'q' is unknown, and one run of the model to find it ended its process with SIGFPE"
    )


def test_the_command_line_has_the_limits(tmp_path):
    onnx.save(parse(TWICE), tmp_path / "in.onnx")
    (tmp_path / "r.py").write_text(
        "import surgeon\n"
        "@surgeon.rule(patterns=[lambda g, x: g.relu(g.relu(x))])\ndef once(g, x):\n    return g.relu(x)\n"
    )
    args = ("rewrite", tmp_path / "in.onnx", tmp_path / "out.onnx", "-r", tmp_path / "r.py")
    assert run(*args, "--jobs", "2", "--proof-time", "60").exit_code == 0
    short = run(*args, "--proof-time", "0.001")
    assert "--proof-time 0.006" in " ".join(short.stdout.split())
    for wrong in (("--jobs", "0"), ("--proof-time", "0"), ("--proof-time", "nan")):
        assert run(*args, *wrong).exit_code == 2


@pytest.mark.parametrize(("jobs", "most"), [(None, 4), (1, 1), (3000, 4)])
def test_no_more_children_are_at_hand_than_usual(monkeypatch, jobs, most):
    """However many proofs may be made at once, a child beyond these is started when there is work for it."""
    asked = []
    monkeypatch.setattr(worker, "prefork", asked.append)
    worker_pool.prefork_workers(jobs)
    assert asked == [min(most, worker_pool.default_jobs())]


@pytest.mark.parametrize("options", [{"jobs": 0}, {"jobs": -1}, {"proof_time": 0.0}, {"proof_time": float("inf")}])
def test_limits_that_mean_nothing_are_refused(options):
    with pytest.raises(UsageError, match="as in --"):
        surgeon.rewrite(parse(TWICE), relu_once, options=CheckOptions(**options))


def case(*names):
    """One whose input has these free dims."""
    model = parse(TWICE)
    inputs = (CaseInput("x", tuple(map(symbol, names))),)
    minis = RegionModels(model, model, {name: symbol(name) for name in names})
    return ProofCase(minis, inputs, ("y",), ProofOptions(proof_time=5.0))


ORIGINAL = {"side": "the original", "agreed": 17}
REPLACEMENT = {"side": "the replacement", "agreed": 1}


@pytest.mark.parametrize(
    ("names", "failure", "outcome", "reason"),
    [
        (
            ("batch", "?1", "seq", "width"),
            TaskFailure("time", last_note=ORIGINAL),
            "unproved",
            "its proof was stopped after 5 s (17 runs agreed). Use smaller sizes (--dim batch=2 --dim seq=2) or "
            "more time (--proof-time 30)",
        ),
        (
            (),
            TaskFailure("clock", last_note=REPLACEMENT),
            "unproved",
            "its proof was stopped after 30 s of wall time (1 run agreed). Use more time (--proof-time 30)",
        ),
        (
            (),
            TaskFailure("crash", "SIGSEGV", REPLACEMENT),
            "unproved",
            "the replacement crashes its process with ",
        ),
        ((), TaskFailure("end", "exit code 3"), "unproved", "its proof crashes its process with exit code 3"),
        ((), TaskResult({"outcome": "PROVED"}, []), "unproved", "the worker process returned no proof: "),
    ],
)
def test_what_it_means_that_a_child_gives_no_proof(names, failure, outcome, reason):
    proof = worker_proofs._proof(case(*names), failure)
    assert proof.outcome.value == outcome
    assert proof.reason.startswith(reason)


def test_too_little_memory_says_how_much_there_was():
    gigabytes = f"{worker.memory_limit() / 1e9:.1f} GB"
    proof = worker_proofs._proof(case("n"), TaskFailure("memory", last_note=ORIGINAL))
    assert proof.reason == f"the original takes more than {gigabytes} of memory. Use smaller sizes (--dim n=2)"
    noted = {**ORIGINAL, "at": {"by_symbol": {"n": 1 << 30}, "shrunk": []}}
    proof = worker_proofs._proof(case("n"), TaskFailure("memory", last_note=noted))
    assert f"of memory ('x', float32[{1 << 30}, 4], takes 17.2 GB). Use smaller sizes" in proof.reason
    proof = worker_proofs._proof(case(), TaskFailure("memory", last_note=None))
    assert proof.reason == f"its proof takes more than {gigabytes} of memory. Use a machine with more memory"
