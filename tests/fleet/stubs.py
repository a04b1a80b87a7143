"""Tasks that do nothing, many of them: what a scheduler takes for each, and what a client takes of memory."""

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.command_line import ROOT, surroundings
from tests.fleet import parts

_SCRIPT = """
import resource, sys, time
from surgeon.automation.fleet.execution import dask_engine
from surgeon.automation.fleet.run_database import PlannedModel, RunDatabase
from surgeon.automation.fleet.job import FleetSettings, ModelJob
from surgeon.automation.recipes.recipe import Recipe, Rules

address, count = sys.argv[1], int(sys.argv[2])

def stub(job, reports_start=False):
    return job.row("proved").to_dict()

stub.__module__ = "__main__"
dask_engine.run_in_process = stub
settings = FleetSettings(Recipe([Rules("gelu")]), "/tmp/nowhere").with_cache_key()
engine = dask_engine.connect(address, None, ())
database = RunDatabase()
def memory():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 1e6
before = memory()
database.plan(PlannedModel(f"a/{place:06}.onnx", f"/zoo/a/{place:06}.onnx", 1000, "t") for place in range(count))
began = time.perf_counter()
done = most = 0
jobs = (ModelJob(model, settings) for model in database.planned(largest_first=True))
for row in engine.rows(jobs):
    database.add(row)
    done += 1
    if done % 500 == 0:
        most = max(most, memory())
took = time.perf_counter() - began
assert done == count
print(f"{count:>7,} tasks: {took / count * 1e3:.2f} ms each; client {before:.0f} MB before, {most:.0f} MB at most")
engine.close()
database.close()
"""


def run(_):
    """Print what each takes."""
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        scheduler, address = stack.enter_context(parts.scheduler())
        stack.enter_context(parts.workers(address, 1, Path(home) / "dask"))
        for count in (1_000, 10_000, 100_000):
            words, began = [sys.executable, "-c", _SCRIPT, address, str(count)], _worked(scheduler)
            ran = subprocess.run(words, env=surroundings(), capture_output=True, text=True, cwd=ROOT, check=False)
            each = (_worked(scheduler) - began) / count * 1e3
            told_by_it = ran.stdout.strip() or ran.stderr[-2000:]
            print(f"{told_by_it}; scheduler {each:.2f} ms of processor time each", flush=True)


def _worked(process):
    """Seconds that processors have worked for a process that runs (Linux)."""
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
