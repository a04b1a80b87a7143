"""Proofs of earlier runs: when one counts, what the store holds, and what damage and other processes do to it."""

import json
import os
import pickle
import signal
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest

import surgeon
from surgeon import CheckOptions, Graph, Tensor, rule
from surgeon.proof.cache import disk_store, environment, notes
from surgeon.proof.cache.disk_store import DiskProofStore
from surgeon.proof.check_result import Outcome
from surgeon.proof.site import worker_proofs
from surgeon.proof.site_proof import SiteProof, weakest_proof
from surgeon.runtime.processes import worker
from surgeon.testing import parse
from tests.command_line import CONSTANTS, EXACT, ROOT, process, result_in, run, surroundings
from tests.fleet import zoo
from tests.test_architecture import imported, sources

posix = pytest.mark.skipif(os.name != "posix", reason="signals and pipes")
GELU = f"(float[n, 4] x) => (float[n, 4] y) <{CONSTANTS}> {{{EXACT.format(i='i', x='x', y='y')}}}"
PROOF = SiteProof(Outcome.PROVED, oracle="ONNX Runtime", reference="float64", runs=7, tolerance={"float32": 2e-5})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of the store, which other tests have not."""
    monkeypatch.setenv("SURGEON_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def store(folder):
    return DiskProofStore(folder)


@pytest.fixture
def ran(monkeypatch):
    """The cases that are run."""
    found, task = [], worker_proofs._task
    monkeypatch.setattr(worker_proofs, "_task", lambda case: found.append(case) or task(case))
    return found


def gelu(**options):
    """The report of a rewrite with one site."""
    _, report = surgeon.rewrite(parse(GELU), "gelu", keep_going=True, options=CheckOptions(**options))
    return report


def entries(folder):
    """The files of proofs; notes and tables of rules have other suffixes."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".note", ".ops"))


@pytest.mark.parametrize("flags", [(), ("--no-cache",)])
def test_proofs_of_a_rule_by_itself_are_remembered_by_default(folder, tmp_path, flags):
    source = "from surgeon import rule\n\n\ndef found(g, x):\n    return g.neg(g.neg(x))\n\n\n"
    written = "@rule(patterns=[found], target='any')\ndef r(g, x):\n    return g.identity(x)\n"
    (tmp_path / "rules.py").write_text(source + written)
    done = run("rules", f"{tmp_path / 'rules.py'}", "--prove", "--target", "onnx", *flags)
    assert done.exit_code == 0, done.output
    assert bool(entries(folder)) is not bool(flags)


def test_other_tests_have_no_store():
    assert os.environ["SURGEON_CACHE"] == "off"
    assert disk_store.disk_store() is None


def test_what_was_proved_is_not_run_again(folder, ran):
    """And the report has the same numbers."""
    first = gelu()
    assert (len(ran), first.remembered) == (1, 0)
    second = gelu()
    assert (len(ran), second.remembered, second.outcome) == (1, 1, "proved")
    assert first.proofs == second.proofs
    (entry,) = entries(folder)
    assert entry.stat().st_size < 6_000


def test_the_report_counts_them(folder, tmp_path):
    """In words, and in JSON."""
    zoo.gelus(tmp_path / "in.onnx", 2)
    command = ("rewrite", tmp_path / "in.onnx", tmp_path / "out.onnx", "-r", "gelu", "--report", tmp_path / "r.json")
    assert "PROVED   2 of 2 sites; largest" in run(*command).stdout
    assert result_in((tmp_path / "r.json").read_text())["remembered"] == 0
    assert "PROVED   2 of 2 sites, all of them before on this machine; largest" in run(*command).stdout
    found = result_in((tmp_path / "r.json").read_text())
    assert (found["remembered"], [proof["remembered"] for proof in found["proofs"]]) == (2, [True])


def test_a_site_is_remembered_if_it_is_in_all_ways_of_a_call():
    new, old = SiteProof(Outcome.PROVED), SiteProof(Outcome.PROVED, remembered=True)
    assert weakest_proof([old, old]) is old
    assert not weakest_proof([old, new]).remembered


@pytest.mark.parametrize("way", ["--no-cache", "off"])
def test_it_can_be_turned_off(folder, tmp_path, monkeypatch, ran, way):
    """Nothing is read and nothing is written."""
    gelu()
    before = [entry.stat() for entry in entries(folder)]
    if way == "off":
        monkeypatch.setenv("SURGEON_CACHE", "Off")
    for _ in range(2):
        zoo.gelus(tmp_path / "in.onnx")
        command = (
            "rewrite",
            tmp_path / "in.onnx",
            tmp_path / "out.onnx",
            "-r",
            "gelu",
            *["--no-cache"] * (way != "off"),
        )
        assert "PROVED   1 of 1 site; largest" in run(*command).stdout
    assert gelu(cache=way == "off").remembered == 0
    assert [entry.stat() for entry in entries(folder)] == before


def test_a_second_run_starts_no_worker(folder, tmp_path, monkeypatch):
    """Neither for proofs nor to load the result; another result is loaded, and a failed load is not noted."""
    started = []
    init = worker.Worker.__init__
    monkeypatch.setattr(
        worker.Worker, "__init__", lambda self, *given, **named: started.append(self) or init(self, *given, **named)
    )
    worker.stop()
    zoo.gelus(tmp_path / "in.onnx", 2)

    def rewrite(**options):
        started.clear()
        path, report = surgeon.rewrite(
            tmp_path / "in.onnx", "gelu", output=tmp_path / "out.onnx", force=True, options=CheckOptions(**options)
        )
        worker.stop()
        return len(started), report.outcome, path.read_bytes()

    first, outcome, content = rewrite()
    assert (first > 0, outcome) == (True, "proved")
    assert rewrite() == (0, "proved", content)
    assert rewrite(cache=False)[0] > 0
    assert rewrite(seed=1)[0] > 0  # other proofs


def test_notes_are_bounded_and_damaged_ones_count_as_none(folder, monkeypatch):
    notes.note("one")
    (entry,) = folder.rglob("*.note")
    assert (notes.is_noted("one"), notes.is_noted("two"), notes.is_noted(None)) == (True, False, False)
    entry.write_bytes(b"")
    assert not notes.is_noted("one")
    monkeypatch.setattr(notes, "MAX_FOLDER", 100)
    for number in range(9):
        notes.note(str(number))
    assert len(list(folder.rglob("*.note"))) <= 3


def test_a_model_with_external_data_is_loaded_each_time(tmp_path):
    """Its bytes do not say whether the data file is there."""
    model = parse(GELU)
    assert notes.is_loaded(model, 1 << 20)
    assert notes.is_loaded(model, 10) is None
    model.graph.initializer[0].external_data.add(key="location", value="data.bin")
    assert notes.is_loaded(model, 1 << 20) is None


def test_another_process_finds_them(folder, tmp_path):
    """A key depends on no address, order of a set or name of a temporary file."""
    out = tmp_path / "out.onnx"
    for seed, expected in ((1, "of 28 sites"), (2, "28 of 28 sites, 27 of them before on this machine")):
        done = process("-m", "surgeon", "rewrite", zoo.DISTILBERT, out, "-r", "ort", PYTHONHASHSEED=str(seed))
        assert expected in done.stdout


@rule(patterns=[lambda g, x: g.relu(g.relu(x))])
def wrong(g: Graph, x: Tensor) -> Tensor:
    return g.abs(x)


@rule(patterns=[lambda g, x: g.relu(g.relu(x))])
def unknown(g: Graph, x: Tensor) -> Tensor:
    return g.op("acme::Relu", x)


TWICE = "(float[n, 4] x) => (float[n, 4] y) { a = Relu(x) y = Relu(a) }"


def test_what_fails_or_is_unproved_is_run_again(folder, ran):
    for settings in ({"rules": wrong}, {"rules": "gelu", "options": CheckOptions(proof_time=0.001)}):
        model = parse(TWICE if settings["rules"] is wrong else GELU)
        for _ in range(2):
            _, report = surgeon.rewrite(model, keep_going=True, **settings)
            assert [site.outcome for site in (*report.sites, *report.rolled_back)] in (["failed"], ["unproved"])
        assert entries(folder) == []
    assert len(ran) >= 4


def test_code_of_the_user_is_run_again(folder, tmp_path, forget_implementations):
    """An implementation may change, and no key tells."""

    @surgeon.implements("acme::Relu")
    def relu(x):
        return np.maximum(x, 0)

    for _ in range(2):
        _, report = surgeon.rewrite(parse(TWICE), unknown)
        assert (report.outcome, report.remembered) == ("proved", 0)
    ops = tmp_path / "ops.py"
    ops.write_text(
        "import surgeon\n@surgeon.implements('acme::Other')\ndef other(x):\n    return x\n", encoding="utf-8"
    )
    assert gelu(custom_ops=[ops]).outcome == "proved"
    assert entries(folder) == []


@pytest.mark.parametrize("part", ["versions", "_engine_hash", "_cpu_features"])
def test_proofs_are_those_of_an_environment(folder, monkeypatch, part):
    gelu()
    for other, count in (({"onnxruntime": "9.9"} if part == "versions" else "other", 0), (None, 1)):
        environment.environment.cache_clear()
        with monkeypatch.context() as patch:
            if other is not None:
                patch.setattr(environment, part, lambda other=other: other)
            assert gelu().remembered == count
    environment.environment.cache_clear()


def test_the_engine_is_known_by_its_source(tmp_path, monkeypatch):
    """A checkout changes without its version."""
    table = tmp_path / "surgeon/runtime/data/table.json"
    table.parent.mkdir(parents=True)
    monkeypatch.setattr(environment, "_HOME", tmp_path / "surgeon")
    found = set()
    for text in ("1", "2"):
        table.write_text(text, encoding="utf-8")
        found.add(environment._engine_hash())
    table.rename(table.with_name("other.json"))
    found.add(environment._engine_hash())
    assert len(found) == 3


def test_the_source_of_the_engine_is_all_that_a_proof_imports():
    """From the function that a worker calls: a module of another package would change proofs under one key."""
    paths, seen, waiting = dict(sources()), set(), ["surgeon.proof.site.proof_tasks"]
    while waiting:
        name = waiting.pop()
        if name not in seen and name in paths:
            seen.add(name)
            waiting += imported(paths[name])
    packages = {name.split(".")[1] for name in seen if name.count(".") > 1}
    assert packages == set(environment.ENGINE)


def test_the_processor_is_known_by_its_features(tmp_path, monkeypatch):
    found = set()
    for flags in ("sse avx2", "avx2 sse", "sse avx2 avx_vnni"):
        (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t: x\n", encoding="utf-8")
        monkeypatch.setattr(environment, "_CPU_INFO", tmp_path / "cpuinfo")
        found.add(repr(environment._cpu_features()))
    assert len(found) == 2
    monkeypatch.setattr(environment, "_CPU_INFO", tmp_path / "none")
    assert environment._cpu_features()[1] == []


def signed(path, text):
    """An entry with a right checksum."""
    return blake2b(path.name.encode() + text, digest_size=16).hexdigest().encode() + b"\n" + text


def changed(path, **fields):
    """The entry with other values, and a right checksum."""
    text = path.read_bytes().partition(b"\n")[2]
    return signed(path, json.dumps({**json.loads(text), **fields}).encode())


DAMAGES = {
    "empty": lambda path: b"",
    "cut": lambda path: path.read_bytes()[:-9],
    "one bit": lambda path: (data := path.read_bytes())[:-1] + bytes([data[-1] ^ 1]),
    "zeros": lambda path: bytes(path.stat().st_size),
    "pickle": lambda path: pickle.dumps(PROOF),
    "deep": lambda path: signed(path, b"[" * 60_000),
    "long number": lambda path: changed(path, seconds=0).replace(b'"seconds": 0', b'"seconds": ' + b"9" * 4_000),
    "large number": lambda path: changed(path, seconds=10**400),
    "another type": lambda path: signed(path, b"7"),
    "another field": lambda path: changed(path, more=1),
    "a lone surrogate": lambda path: changed(path, reason="\ud800"),
    "failed": lambda path: changed(path, outcome="FAILED"),
    "large": lambda path: path.read_bytes() + bytes(disk_store.MAX_ENTRY),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_entry_is_replaced(folder, ran, damage):
    gelu()
    (entry,) = entries(folder)
    sound = entry.read_bytes().partition(b"seconds")[0][33:]
    entry.write_bytes(damage(entry))
    assert (gelu().outcome, len(ran)) == ("proved", 2)
    assert entry.read_bytes().partition(b"seconds")[0][33:] == sound
    assert (gelu().remembered, len(ran)) == (1, 2)


def test_an_entry_counts_for_its_own_case(store, folder):
    """Also where a file is copied."""
    store.keep("one", PROOF)
    (entry,) = entries(folder)
    other = store._path("other")
    other.parent.mkdir(exist_ok=True)
    other.write_bytes(entry.read_bytes())
    assert (store.find("one"), store.find("other")) == (PROOF, None)


@posix
def test_what_is_no_file_is_left(store):
    """A pipe, which would wait for a writer, and a folder."""
    for key, make in (("pipe", os.mkfifo), ("folder", os.mkdir)):
        path = store._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path)
        assert store.find(key) is None
        store.keep(key, PROOF)
    assert store.find("pipe") == PROOF
    assert store.find("folder") is None


def test_an_entry_cannot_write_to_the_terminal(folder, tmp_path):
    """What a stranger put into the folder is text."""
    zoo.gelus(tmp_path / "in.onnx")
    command = ("rewrite", tmp_path / "in.onnx", tmp_path / "out.onnx", "-r", "gelu")
    run(*command)
    (entry,) = entries(folder)
    reason = "\x1b[2J[bold]\x07"
    text = json.dumps({**json.loads(entry.read_bytes().partition(b"\n")[2]), "reason": reason}, ensure_ascii=False)
    entry.write_bytes(signed(entry, text.encode()))
    shown = run(*command)
    assert "before on this machine" in shown.stdout
    assert "[bold]" in shown.stdout
    assert not {"\x1b", "\x07"} & set(shown.stdout)


@pytest.mark.parametrize("place", ["file", "file/inside", "device"])
def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch, place):
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("SURGEON_CACHE", os.devnull if place == "device" else str(tmp_path / place))
    for _ in range(2):
        assert (gelu().outcome, gelu().remembered) == ("proved", 0)


def test_the_folder_is_the_systems(tmp_path, monkeypatch):
    """A user without a home has none: `~` would be a folder here."""
    import platformdirs

    monkeypatch.delenv("SURGEON_CACHE")
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name, appauthor: tmp_path / name)
    store = disk_store.disk_store()
    assert store is not None
    store.keep("key", PROOF)
    assert [path.relative_to(tmp_path).parts[:2] for path in entries(tmp_path)] == [("onnx-surgeon", "proofs")]
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name, appauthor: Path("~/.cache", name))
    assert disk_store.disk_store() is None


def test_the_store_is_bounded(store, folder, monkeypatch):
    """The least recently used proofs go, and what killed processes left; no file of another program does."""
    monkeypatch.setattr(disk_store, "FOLDERS", 1)
    monkeypatch.setattr(disk_store, "MAX_BYTES", 8_000)
    monkeypatch.setattr(DiskProofStore, "_path", lambda self, key: folder / "proofs" / "ab" / f"{key}.proof")
    for number in range(10):
        store.keep(f"k{number}", PROOF)
        os.utime(store._path(f"k{number}"), (number, number))
    size = store._path("k9").stat().st_size
    left, foreign = folder / "proofs/ab/0123.tmp.proof", folder / "proofs/ab/thesis.txt"
    left.write_bytes(bytes(2_000))
    os.utime(left, (0, 0))
    foreign.write_bytes(bytes(20_000))
    os.utime(foreign, (0, 0))
    assert store.find("k1") == PROOF  # and is the last used now
    for number in range(10, 40):
        store.keep(f"k{number}", PROOF)
        os.utime(store._path(f"k{number}"), (number, number))
    kept = {path.stem for path in entries(folder)} - {"thesis"}
    assert len(kept) * size <= 8_000 < (len(kept) + 1) * size
    assert "k1" in kept
    assert "k2" not in kept
    assert (left.exists(), foreign.exists()) == (False, True)


KILLED = """
import os, pathlib, signal, sys
from surgeon.proof.cache.disk_store import DiskProofStore
from tests.test_remembered_proofs import PROOF

place, folder = sys.argv[1], pathlib.Path(sys.argv[2])
end = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
replace, opened = os.replace, pathlib.Path.open

class Half:
    def __init__(self, file): self.file = file
    def __enter__(self): return self
    def __exit__(self, *_): self.file.close()
    def write(self, data):
        self.file.write(data[: len(data) // 2])
        self.file.flush()
        end()

if place == "before": os.replace = end
if place == "behind": os.replace = lambda *paths: end(replace(*paths))
if place == "within":
    half = lambda mode, file: Half(file) if mode == "xb" else file
    pathlib.Path.open = lambda path, mode, **how: half(mode, opened(path, mode, **how))
DiskProofStore(folder).keep("key", PROOF)
"""


@posix
@pytest.mark.parametrize(("place", "found"), [("within", None), ("before", None), ("behind", PROOF)])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_killed_writer_leaves_no_wrong_entry(store, folder, place, found, is_there):
    if is_there:
        store.keep("key", PROOF)
    ended = subprocess.run([sys.executable, "-c", KILLED, place, folder], env=surroundings(), check=False)
    assert ended.returncode == -signal.SIGKILL
    assert store.find("key") == (PROOF if is_there else found)
    assert len(entries(folder)) == is_there + (place != "behind" or not is_there)
    store.keep("key", PROOF)
    assert store.find("key") == PROOF


HAMMER = """
import sys
from pathlib import Path
from dataclasses import replace
from surgeon.proof.cache import disk_store
from tests.test_remembered_proofs import PROOF

disk_store.MAX_BYTES = 256 * 2_000
store = disk_store.DiskProofStore(Path(sys.argv[1]))
found = 0
for turn in range(20):
    for key in range(25):
        proof = store.find(str(key))
        assert proof in (None, replace(PROOF, runs=key)), proof
        found += proof is not None
        store.keep(str(key), replace(PROOF, runs=key))
print(found)
"""


def test_two_processes_use_one_folder(folder):
    """Each finds the right proof or none, while both write, read and remove."""
    command = [sys.executable, "-c", HAMMER, folder]
    both = [subprocess.Popen(command, env=surroundings(), stdout=subprocess.PIPE, text=True) for _ in range(2)]
    found = [int(child.communicate()[0]) for child in both]
    assert [child.returncode for child in both] == [0, 0]
    assert min(found) > 100
    assert not [path for path in entries(folder) if path.name.endswith(".tmp.proof")]


def test_two_rewrites_at_once_prove_the_same(folder, tmp_path):
    zoo.gelus(tmp_path / "in.onnx", 3)
    command = [sys.executable, "-m", "surgeon", "rewrite", tmp_path / "in.onnx", "-r", "gelu"]
    both = [
        subprocess.Popen([*command[:5], tmp_path / f"{at}.onnx", *command[5:]], env=surroundings(), cwd=ROOT)
        for at in range(2)
    ]
    assert [child.wait() for child in both] == [0, 0]
    assert (tmp_path / "0.onnx").read_bytes() == (tmp_path / "1.onnx").read_bytes()
    assert "all of them before" in run(*command[3:5], tmp_path / "out.onnx", *command[5:]).stdout


def test_a_fleet_uses_the_store(folder, tmp_path):
    """But where each model is to be proved by itself."""
    zoo.gelus(tmp_path / "zoo" / "m.onnx")
    recipe = surgeon.Recipe([surgeon.Rules("gelu")])
    for to, settings in (("one", {}), ("two", {}), ("three", {"own_proofs": True})):
        (row,) = surgeon.run_many(recipe, f"{tmp_path}/zoo/*.onnx", to=tmp_path / to, **settings)
        assert row.proofs == {"proved": 1}
        (entry,) = entries(folder)
        if to == "one":
            made = entry.stat()
            os.utime(entry, (1, 1))
        elif to == "two":
            assert entry.stat().st_mtime > made.st_mtime - 1  # read
            os.utime(entry, (1, 1))
    assert entry.stat().st_mtime == 1
