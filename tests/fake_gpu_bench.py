"""A part of a bench, as `surgeon.benching.part` has it, with engines of `tests.fake_gpu`."""

from surgeon.benching import part
from tests.fake_gpu import here

load = here(part.load)
measure, let_go = part.measure, part.let_go
