"""Many models in and out of S3 through Dask, undisturbed and with everything killed that can be."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from surgeon.automation.fleet.storage.storage import storage_of
from tests.command_line import ROOT, surroundings
from tests.fleet import parts, zoo

# Seconds that a model may take, and bytes of a large one: moto's server holds what it copies in memory.
LIMIT, TABLE = (60, 1 << 31) if parts.runs_already() else (25, 1 << 26)
LARGE = 5


def make_zoo(root, count):
    """So many models: 20 of 500 are broken, 5 hang; 5 have a large table; those that ship here, others in variants."""
    broken, few = count // 25, max(1, count // 100)
    for place in range(broken):
        zoo.broken(root / f"broken/{place:03}.onnx", place)
    for place in range(few):
        zoo.troubled(root / f"hang/{place}.onnx", zoo.HANG)
    for place in range(LARGE):
        zoo.sparse(root / f"large/{place}.onnx", TABLE, fires=place % 2 == 0)
    shipped = sorted((ROOT / "notebooks" / "models").glob("*.onnx"))
    for model in shipped:
        (root / "shipped").mkdir(exist_ok=True)
        (root / "shipped" / model.name).write_bytes(model.read_bytes())
    for place in range(count - broken - few - LARGE - len(shipped)):
        zoo.gelus(root / f"variants/{place % 7}/{place:04}.onnx", place % 9 + 1, 4 + place % 5)
    return root


def expected(name):
    """What a model of the zoo comes to."""
    kind = name.partition("/")[0]
    return {"broken": ("refused",), "hang": ("late",)}.get(kind, ("proved", "unchanged"))


def upload(store, root):
    """Put a zoo into S3; of what is a hole, one is sent and the others are copied there."""
    tables = sorted(root.glob("large/*.weights"))
    for path in sorted(root.rglob("*")):
        if path.is_file() and path not in tables[1:]:
            store.put_file(str(path), f"zoo/{path.relative_to(root)}")
    for path in tables[1:]:
        store.copy(f"zoo/large/{tables[0].name}", f"zoo/large/{path.name}")


def hashes(store, folder):
    """What lies in a target, by what it holds; of a table its size."""
    found = {}
    for path, info in store.find(folder, detail=True).items():
        name = path.removeprefix(f"{folder}/")
        if not name.startswith(".surgeon"):
            is_table = name.endswith(".weights")
            found[name] = info["size"] if is_table else hashlib.sha256(store.cat(path)).hexdigest()
    return found


def command(recipe, address, to, *arguments):
    """The command line of a run."""
    words = ["run", recipe, "--over", "s3://zoo/**/*.onnx", "--to", to, "--engine", address, "--model-time", LIMIT]
    return [sys.executable, "-m", "surgeon", *map(str, (*words, *arguments))]


def finished(store, folder):
    """How many rows there are of a run that goes on."""
    return len(store.find(f"{folder}/.surgeon/rows"))


class Stage:
    """A scheduler, two workers and a store, for several runs."""

    def __init__(self, stack, folder):
        self.variables = stack.enter_context(parts.s3_server())
        os.environ.update(self.variables)
        import s3fs

        self.store = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
        self.folder, self._stack, self.log = folder, stack, folder / "log"
        self.recipe = folder / "zoo.toml"
        self.recipe.write_text(f'[[step]]\nrules = "{zoo.RULES}"\n', encoding="utf-8")
        self.start()

    def start(self):
        """A scheduler and two workers."""
        self.scheduler, self.address = self._stack.enter_context(parts.scheduler(**self.variables))
        self.workers = []
        for _ in range(2):
            self.add_worker()

    def restart(self):
        """Others in the place of those that are left, which find the store as it is found now."""
        for one in (*self.workers, self.scheduler):
            if one.poll() is None:
                parts.kill(one)
        self.start()

    def add_worker(self):
        """One more worker."""
        one = parts.workers(self.address, 1, self.folder / "dask", **self.variables)
        self.workers += self._stack.enter_context(one)

    def client(self, to, *arguments):
        """The command, started."""
        with open(self.log, "ab") as log:
            result = command(self.recipe, self.address, to, *arguments)
            return subprocess.Popen(result, env=surroundings(**self.variables), stdout=log, stderr=log, cwd=ROOT)

    def remove(self, name):
        """Take a target away."""
        storage, path = storage_of(f"s3://fused/{name}")
        storage.remove(path)
        self.store.invalidate_cache()

    def until(self, folder, count, client):
        """Wait until so many models are done."""
        while finished(self.store, folder) < count and client.poll() is None:
            time.sleep(0.2)
        assert client.poll() is None, "the client ended too early"


def rows_of(path):
    return {row["model"]: row for row in map(json.loads, Path(path).read_text(encoding="utf-8").splitlines())}


def run(count):
    """Print what came of it."""
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        folder = Path(home)
        root = make_zoo(folder / "zoo", count)
        stage = Stage(stack, folder)
        for bucket in ("zoo", "fused"):
            stage.store.mkdir(bucket)
        began = time.monotonic()
        upload(stage.store, root)
        print(f"{count} models put into S3 in {time.monotonic() - began:.0f} s", flush=True)
        began = time.monotonic()
        client = stage.client("s3://fused/quiet", "--rows", folder / "quiet.jsonl")
        code = client.wait()
        quiet = rows_of(folder / "quiet.jsonl")
        wrong = [name for name, row in quiet.items() if row["outcome"] not in expected(name)]
        read = {name: row["read"] for name, row in quiet.items() if name.startswith("large/")}
        counts = dict(Counter(row["outcome"] for row in quiet.values()))
        seconds = time.monotonic() - began
        print(f"undisturbed: exit code {code}, {len(quiet)} rows, {counts}, {seconds:.0f} s", flush=True)
        print(f"  rows that are wrong: {wrong}", flush=True)
        print(f"  bytes read of models with a table of {TABLE:,}: {max(read.values()):,} at most", flush=True)
        assert not wrong
        assert len(quiet) == count
        truth = hashes(stage.store, "fused/quiet")
        resumed(stage, "quiet", truth)
        stage.remove("quiet")  # of large models there is not room for many copies
        for name, disturb in (("worker", kill_worker), ("client", kill_client), ("scheduler", kill_scheduler)):
            disturb(stage, name, count)
            resumed(stage, name, truth)
            stage.remove(name)
        shut_out(stage, truth, count)


def resumed(stage, name, truth):
    """Run again, and see that all is as it is without any harm."""
    began = time.monotonic()
    before = {path: info["LastModified"] for path, info in stage.store.find(f"fused/{name}", detail=True).items()}
    rows = stage.folder / f"{name}-again.jsonl"
    code = stage.client(f"s3://fused/{name}", "--resume", "--rows", rows).wait()
    after = stage.store.find(f"fused/{name}", detail=True)
    same = sum(info["LastModified"] == before.get(path) for path, info in after.items() if ".surgeon" not in path)
    kept = sum(row["kept"] for row in rows_of(rows).values())
    equal = hashes(stage.store, f"fused/{name}") == truth
    left = [path for path in after if "/.surgeon/tmp" in path or "/.surgeon/rows/" in path]
    seconds = time.monotonic() - began
    print(
        f"  {name}, again: exit code {code}, {kept} kept, {same} files untouched, {seconds:.1f} s, "
        f"same hashes {equal}, left over {len(left)}",
        flush=True,
    )
    assert equal
    assert not left


def shut_out(stage, truth, count):
    """The bucket of the results takes nothing more from the middle on; when it does again, what is lacking is done."""
    with parts.gated(stage.variables) as (variables, shut):
        stage.variables, name = variables, "shut"
        stage.restart()
        client = stage.client(f"s3://fused/{name}", "--rows", stage.folder / f"{name}.jsonl")
        stage.until(f"fused/{name}", count // 2, client)
        shut.set()
        code = client.wait()
        counts = Counter(row["outcome"] for row in rows_of(stage.folder / f"{name}.jsonl").values())
        print(f"the bucket shut: exit code {code}, {dict(counts)}", flush=True)
        assert code == 1
        assert counts["unwritten"]
        shut.clear()
        resumed(stage, name, truth)


def kill_worker(stage, name, count):
    """A worker goes in the middle, and another comes."""
    client = stage.client(f"s3://fused/{name}", "--rows", stage.folder / f"{name}.jsonl")
    stage.until(f"fused/{name}", count // 4, client)
    parts.kill(stage.workers[0])
    stage.add_worker()
    code = client.wait()
    found = rows_of(stage.folder / f"{name}.jsonl")
    wrong = [model for model, row in found.items() if row["outcome"] not in expected(model)]
    print(f"a worker killed: exit code {code}, {len(found)} rows, wrong {wrong}", flush=True)
    assert len(found) == count


def kill_client(stage, name, count):
    """The client goes in the middle."""
    client = stage.client(f"s3://fused/{name}")
    stage.until(f"fused/{name}", count // 2, client)
    parts.kill(client)
    print(f"the client killed: {finished(stage.store, f'fused/{name}')} rows in the store", flush=True)


def kill_scheduler(stage, name, count):
    """The scheduler goes in the middle, and its workers with it; others are started."""
    client = stage.client(f"s3://fused/{name}")
    stage.until(f"fused/{name}", count // 2, client)
    parts.kill(stage.scheduler)
    code = client.wait(timeout=600)
    reported = stage.log.read_text(encoding="utf-8").strip().splitlines()
    ended = [line for line in reported if line.startswith("ended")]
    print(f"the scheduler killed: exit code {code}; {ended[-1:] or reported[-3:]}", flush=True)
    stage.restart()
