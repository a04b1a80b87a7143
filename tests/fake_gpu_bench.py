"""A batch of loads, as `surgeon.runtime.timing.bench_tasks` has it, with engines of `tests.fake_gpu`."""

from surgeon.runtime.timing import bench_tasks
from tests.fake_gpu import here

measure = here(bench_tasks.measure)
