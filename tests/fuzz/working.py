"""One model of the fuzzer, from its number to what is wrong with what was done to it."""

from collections import Counter
from pathlib import Path

import onnx

from tests.fuzz import foreign, generated
from tests.fuzz.jobs import Finding, findings
from tests.fuzz.judging import runs


def work(seed: int, number: int, keep: str | None) -> tuple[Counter[str], list[Finding]]:
    """Make the model of a number and do jobs with it: what was done, and what is wrong."""
    name, done = f"{seed}/{number}", Counter[str]()
    is_foreign = number % 3 == 2 and foreign.is_there()
    try:
        model = foreign.generate(name) if is_foreign else generated.generate(name)
    except foreign.NoModel:
        return Counter({"graphs that torch does not export": 1}), []
    if not runs(model):
        return Counter({"models that ONNX Runtime does not run": 1}), []
    done["models of nnsmith" if is_foreign else "models of our own"] += 1
    found = list(findings(model, name, done))
    if keep is not None and found:
        folder = Path(keep)
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(model, folder / f"{seed}-{number}.onnx")
    return done, found
