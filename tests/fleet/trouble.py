"""Rules that go wrong on the models that ask for it: they hang, crash, raise, or take all memory."""

import os
import signal
import time
from typing import NoReturn

from surgeon import Graph, Tensor, rule

HANG, CRASH, MEMORY, RAISE = 3001.0, 3002.0, 3003.0, 3004.0
"""What is added to a tensor where the rule is to go wrong."""


def hanging(g: Graph, x: Tensor) -> Tensor:
    return g.neg(g.add(x, HANG))


def crashing(g: Graph, x: Tensor) -> Tensor:
    return g.neg(g.add(x, CRASH))


def hoarding(g: Graph, x: Tensor) -> Tensor:
    return g.neg(g.add(x, MEMORY))


def raising(g: Graph, x: Tensor) -> Tensor:
    return g.neg(g.add(x, RAISE))


def wait(x: Tensor) -> NoReturn:
    while True:
        time.sleep(0.1)


def fall(x: Tensor) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def fill(x: Tensor) -> NoReturn:
    held = []
    while True:
        held.append(bytearray(1 << 26))


def fault(x: Tensor) -> NoReturn:
    raise ZeroDivisionError("a fault in a rule")


@rule(patterns=[hanging], conditions=[wait])
def hang(g: Graph, x: Tensor) -> Tensor:
    """What: never comes back."""
    return g.abs(x)


@rule(patterns=[crashing], conditions=[fall])
def crash(g: Graph, x: Tensor) -> Tensor:
    """What: ends its process."""
    return g.abs(x)


@rule(patterns=[hoarding], conditions=[fill])
def hoard(g: Graph, x: Tensor) -> Tensor:
    """What: takes all memory."""
    return g.abs(x)


@rule(patterns=[raising], conditions=[fault])
def defect(g: Graph, x: Tensor) -> Tensor:
    """What: raises."""
    return g.abs(x)
