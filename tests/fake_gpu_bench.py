"""A part of a bench, as `surgeon.runtime.timing.bench_tasks` has it, with engines of `tests.fake_gpu`."""

from surgeon.runtime.timing import bench_tasks
from tests.fake_gpu import here

load = here(bench_tasks.load)
measure, let_go = bench_tasks.measure, bench_tasks.let_go
