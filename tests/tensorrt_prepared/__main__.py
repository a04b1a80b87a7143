"""`python -m tests.tensorrt_prepared`: which models TensorRT takes before and after `rewrite --rules tensorrt`.

Each .onnx file in the folders given (by default all exports that the tests have made and kept), and with --cases ONNX's
own cases of single ops: parsed, rewritten for TensorRT, parsed again, and with --build built for a GPU of SM86.  With
--peers onnxslim, onnxsim, polygraphy and ModelOpt's graph surgery stand beside it, and the outputs of each are compared
with the original's.  What is still refused is told by op and reason; a model that was taken before and is not any more
is told by name, and makes the exit code 1.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import onnx
from rich.console import Console
from rich.table import Table

import surgeon
from surgeon.errors import SurgeonError
from surgeon.tensorrt.library import installed
from tests.exports import cache_base

LIMIT = 120  # seconds that a peer may take for one model


@dataclass
class Tally:
    """How one tool did.

    equal: models whose outputs are the original's under ONNX Runtime.  broken: models that were taken before it and are
    not after it.
    """

    parsed: int = 0
    built: int = 0
    equal: int = 0
    failed: int = 0
    broken: list[str] = field(default_factory=list)


def taken(model: Any, build: bool) -> tuple[bool, bool, list[Any]]:
    """Whether TensorRT parses a model, builds it, and what stands against it."""
    found = [one for one in surgeon.check(model, "tensorrt", build=build) if one.stops]
    parses = all(one.kind == "build" for one in found)
    return parses, build and not found, found


def ours(source: Any, folder: Path) -> Any:
    """A model after the rules for TensorRT."""
    where = folder / "ours.onnx"
    if isinstance(source, onnx.ModelProto):
        return surgeon.rewrite(source, "tensorrt", target="tensorrt", check="none")[0]
    surgeon.rewrite(source, "tensorrt", output=where, target="tensorrt", check="none", force=True)
    return where


def slim(source: Any, folder: Path) -> Any:
    """A model after onnxslim."""
    import onnxslim

    return onnxslim.slim(source if isinstance(source, onnx.ModelProto) else onnx.load(source))


def sim(source: Any, folder: Path) -> Any:
    """A model after onnxsim."""
    import onnxsim

    return onnxsim.simplify(source if isinstance(source, onnx.ModelProto) else onnx.load(source))[0]


def polygraphy(source: Any, folder: Path) -> Any:
    """A model after polygraphy's clean-up."""
    given, made = folder / "given.onnx", folder / "polygraphy.onnx"
    onnx.save(source if isinstance(source, onnx.ModelProto) else onnx.load(source), given)
    command = ["polygraphy", "surgeon", "sanitize", str(given), "-o", str(made), "--fold-constants", "--cleanup"]
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT)
    return made


def modelopt(source: Any, folder: Path) -> Any:
    """A model after the one graph surgery of ModelOpt's that takes any; the others want a language model of a kind."""
    from modelopt.onnx.graph_surgery import transpose_dequantize_linear_weights  # type: ignore[import-not-found]

    given, made = folder / "given.onnx", folder / "modelopt.onnx"
    onnx.save(source if isinstance(source, onnx.ModelProto) else onnx.load(source), given)
    transpose_dequantize_linear_weights(model_path=str(given), output_path=str(made))
    return made


Tool = Callable[[Any, Path], Any]
PEERS: dict[str, Tool] = {"surgeon": ours, "onnxslim": slim, "onnxsim": sim, "polygraphy": polygraphy}
PEERS["modelopt"] = modelopt  # where it is installed; else each model counts as failed


def within(seconds: int, function: Callable[[Any, Path], Any], source: Any, folder: Path) -> Any:
    """What a function makes of a model.  Raises TimeoutError."""

    def late(*_: object) -> None:
        raise TimeoutError(f"more than {seconds} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        return function(source, folder)
    finally:
        signal.alarm(0)


def models(folders: list[Path], cases: bool) -> Iterator[tuple[str, Any]]:
    """The models by name."""
    for folder in folders:
        yield from ((str(path.relative_to(folder)), path) for path in sorted(folder.rglob("*.onnx")))
    if cases:
        from tests.onnx_cases import onnx_cases

        yield from ((case.name, case.model) for case in onnx_cases())


def main() -> int:
    """Run and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.tensorrt_prepared", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, default=[])
    parser.add_argument("--cases", action="store_true", help="ONNX's own cases too")
    parser.add_argument("--build", action="store_true", help="build what parses")
    parser.add_argument("--every", type=int, default=1, help="one in so many")
    parser.add_argument("--peers", action="store_true", help="what others make of them too")
    options = parser.parse_args()
    if installed() is None:
        print("There is no tensorrt-rtx: pip install tensorrt-rtx.")
        return 2
    folders = options.folders or ([] if options.cases else [cache_base()])
    tools = {name: run for name, run in PEERS.items() if name == "surgeon" or options.peers}
    tallies = {name: Tally() for name in ("before", *tools)}
    left: dict[tuple[str, str], list[str]] = defaultdict(list)
    kinds: Counter[str] = Counter()
    for name, source in islice(models(folders, options.cases), 0, None, options.every):
        try:
            parsed, built, _ = taken(source, options.build)
        except SurgeonError as error:
            kinds[f"no model: {str(error)[:60]}"] += 1
            continue
        kinds["models"] += 1
        tallies["before"].parsed += parsed
        tallies["before"].built += built
        for tool, run in tools.items():
            _one(tool, run, name, source, (parsed, built), options.build, options.peers, tallies[tool], left)
    columns = ["built"] * options.build + ["equal outputs"] * options.peers
    table = Table("", "parsed", *columns, "failed", "taken before, not after")
    for name, tally in tallies.items():
        done = [str(tally.built)] * options.build + [str(tally.equal) if name != "before" else ""] * options.peers
        table.add_row(name, str(tally.parsed), *done, str(tally.failed), str(len(tally.broken)))
    console = Console()
    console.print(f"{kinds['models']:,} models, {installed().title} {installed().version}")  # type: ignore[union-attr]
    console.print(table)
    for (op, reason), names in sorted(left.items(), key=lambda item: -len(item[1])):
        console.print(f"{len(names):4} {op}: {reason}  ({names[0]})", highlight=False, markup=False, soft_wrap=True)
    for name in tallies["surgeon"].broken:
        console.print(f"BROKEN {name}", highlight=False, markup=False, soft_wrap=True)
    return int(bool(tallies["surgeon"].broken))


def _is_equal(source: Any, made: Any) -> bool:
    """Whether two models answer alike under ONNX Runtime."""
    return bool(surgeon.compare(source, made))


def _one(
    tool: str,
    run: Callable[[Any, Path], Any],
    name: str,
    source: Any,
    before: tuple[bool, bool],
    build: bool,
    compare: bool,
    tally: Tally,
    left: dict[tuple[str, str], list[str]],
) -> None:
    """Run one tool on one model and count what TensorRT makes of it."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = within(LIMIT, run, source, Path(folder))
            parsed, built, found = taken(made, build)
            equal = compare and _is_equal(source, made)
        except Exception as error:  # noqa: BLE001 - peers raise anything
            tally.failed += 1
            if tool == "surgeon":
                left["", f"{type(error).__name__}: {str(error)[:120]}"].append(name)
            return
    tally.parsed += parsed
    tally.built += built
    tally.equal += equal
    if (before[0] and not parsed) or (before[1] and not built):
        tally.broken.append(name)
    if tool == "surgeon":
        for one in found[:1]:
            left[one.op, one.reason].append(name)


if __name__ == "__main__":
    sys.exit(main())
