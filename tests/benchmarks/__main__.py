"""`python -m tests.benchmarks`: `surgeon rewrite --rules gelu`, without a check and proved, beside its peers.

With `--speed`: processor times next to those of peers and of an earlier commit, with their bars.

With `--transformers`: the latency of BERT-base and GPT-2 under ONNX Runtime as surgeon and its peers leave them.

With `--never-slower`: the latency of twelve small models, and of what `--measure` writes by that of all others.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks import speed
from tests.benchmarks.bars import ALL_RULES, BARS, GELU_ALONE, PROVED, SECOND_RUN
from tests.benchmarks.measure import Contender, Result, rounds
from tests.benchmarks.never_slower_models import ROWS
from tests.benchmarks.transformer_models import NAMES

HERE = Path(__file__).parent
RIVALS = ("onnxscript", "gs", "ort", "limit")
WORKS = {
    "n200": ("1,200 nodes, 200 GELUs", RIVALS),
    "n2000": ("12,000 nodes, 2,000 GELUs", RIVALS),
    "n20000": ("120,000 nodes, 20,000 GELUs", (PROVED, *RIVALS)),
    "bare": ("the same, and the file states no shape of an inner tensor", (PROVED,)),
    "big": ("1.7 GB of weights inside the file, 12 GELUs", ("cp + fsync", "limit")),
    "sparse": ("20 GB of sparse external data, 140 GELUs", (PROVED,)),
    "hundred": ("100 GB of sparse external data, 140 GELUs", (PROVED,)),
    "growth": ("surgeon alone on 12,000, 120,000 and 1,200,000 nodes", ()),
    "rules": (
        "the 120,000 nodes again: the rules for GELU, all that suit ONNX Runtime, and these over what they wrote",
        (),
    ),
    "mixed": ("120,000 nodes of 6,667 transformer layers: GELUs, biases, residuals, layer normalisations", ()),
}
SIZES = ("n2000", "n20000", "n200000")
EXPLAINED = """\
Seconds: median of {runs} rounds, whole processes, start of Python included.  MB: peak resident memory.
Ratios: medians of the ratios within one round.  GELUs: fused ones in the output.
surgeon: with --check none, as its peers check nothing either; every site proved: with --check sites, the default.
onnxscript: its rewriter with one equal rule; gs: import and export, changing nothing; ort: the offline optimizer;
limit: onnx.load and onnx.save, changing nothing.
"""


def main() -> int:
    """Measure, print tables and bars; 1 when `--bars` is given and one is missed."""
    options = _arguments()
    if options.speed:
        return int(not speed.tables(options.works, options.runs, options.before) and options.bars)
    if options.transformers:
        from tests.benchmarks.latency import tables

        asked = ("threads", "cpu_time", "sequences", "keep", "ep", "batch")
        settings = {name: getattr(options, name) for name in asked}
        fine = tables(options.works, seconds=options.seconds or 60, **settings)
        return int(options.bars and not fine)
    if options.never_slower:
        from tests.benchmarks import never_slower

        threads, seconds = options.threads or 2, options.seconds or 25
        return int(not never_slower.tables(options.works, seconds=seconds, threads=threads, keep=options.keep))
    generator = hashlib.sha256((HERE / "works.py").read_bytes()).hexdigest()[:8]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "surgeon-benchmarks"
    folder = cache / generator
    held = True
    print(EXPLAINED.format(runs=options.runs))
    try:
        for work in options.works:
            print(f"{work}: {WORKS[work][0]}", file=sys.stderr, flush=True)
            results = rounds(_contenders(work, folder), options.runs, _gelus)
            print("\n".join(_table(work, results)), flush=True)
            for bar in BARS[work](results) if work in BARS else ():
                held &= bar.held
                print(f"- {bar.text}: {bar.figure}, {'held' if bar.held else 'MISSED'}", flush=True)
            print(flush=True)
    finally:
        shutil.rmtree(folder / "out", ignore_errors=True)
        if not options.keep:
            shutil.rmtree(cache, ignore_errors=True)
    return int(options.bars and not held)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "works",
        nargs="*",
        help=f"of {', '.join(WORKS)}; with --transformers of {', '.join(NAMES)}; with --speed of "
        f"{', '.join(speed.WORKS)}; with --never-slower of {', '.join(ROWS)} (default: all)",
    )
    parser.add_argument("--transformers", action="store_true", help="measure the latency of whole transformers instead")
    parser.add_argument(
        "--never-slower", action="store_true", help="hold --measure against its peers; exit with 1 if a line is missed"
    )
    parser.add_argument("--speed", action="store_true", help="print the table of processor times and their bars")
    parser.add_argument("--before", metavar="COMMIT", help="earlier version that --speed compares with")
    parser.add_argument(
        "--seconds", type=float, help="for each table of a transformer (default 60), or model of --never-slower (25)"
    )
    parser.add_argument("--threads", type=int, default=0, help="default: one on each core; with --never-slower 2")
    parser.add_argument(
        "--sequence", type=int, action="append", dest="sequences", help="of a transformer (default 128 and 512)"
    )
    parser.add_argument("--ep", default="cpu", choices=("cpu", "cuda"), help="what runs a transformer")
    parser.add_argument("--batch", type=int, default=1, help="of a transformer (default 1)")
    parser.add_argument("--cpu-time", action="store_true", help="of one thread of a transformer, for a busy machine")
    parser.add_argument("--runs", type=int, default=3, help="rounds (default 3)")
    parser.add_argument("--bars", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--keep", action="store_true", help="keep the generated models for the next time (4 GB)")
    options = parser.parse_args()
    chosen = {"transformers": NAMES, "never_slower": ROWS, "speed": speed.WORKS}
    known = next((tuple(names) for table, names in chosen.items() if getattr(options, table)), tuple(WORKS))
    if unknown := set(options.works) - set(known):
        parser.error(f"no work is named {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    options.works = options.works or list(known)
    return options


def _contenders(work: str, folder: Path) -> list[Contender]:
    if work == "growth":
        return [_surgeon(size, _model(size, folder), folder / "out") for size in SIZES]
    if work in ("rules", "mixed"):
        source = _model("mixed" if work == "mixed" else "n20000", folder)
        done = _rewritten(source)
        return [
            _surgeon(GELU_ALONE, source, folder / "out"),
            _surgeon(ALL_RULES, source, folder / "out", rules="ort"),
            _surgeon(SECOND_RUN, done, folder / "out", rules="ort"),
        ]
    source, out = _model(work, folder), folder / "out"
    return [_surgeon("surgeon", source, out), *(_rival(name, source, out) for name in WORKS[work][1])]


def _surgeon(name: str, source: Path, out: Path, check: str = "none", rules: str = "gelu") -> Contender:
    target = out / source.name
    program = Path(sysconfig.get_path("scripts")) / "surgeon"
    command = (str(program), "rewrite", str(source), str(target), "--rules", rules, "--check", check)
    return Contender(name, command, target)


def _rewritten(source: Path) -> Path:
    """What all rules make of a model."""
    done = source.with_name(f"done-{source.name}")
    if not done.exists():
        program = str(Path(sysconfig.get_path("scripts")) / "surgeon")
        command = (program, "rewrite", str(source), str(done), "--rules", "ort", "--check", "none")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return done


def _rival(name: str, source: Path, out: Path) -> Contender:
    target = out / source.name
    if name == PROVED:
        return _surgeon(name, source, out, "sites")
    if name == "cp + fsync":
        command = ("sh", "-c", 'cp "$1" "$2" && sync "$2"', "sh", str(source), str(target))
    else:
        command = (sys.executable, str(HERE / "peers.py"), name, str(source), str(target))
    return Contender(name, command, target)


def _model(work: str, folder: Path) -> Path:
    """The generated model; a folder with its final name holds a whole one."""
    path = folder / work / f"{work}.onnx"
    if not path.exists():
        partial = folder / f"{work}.partial"
        partial.mkdir(parents=True, exist_ok=True)
        subprocess.run((sys.executable, "-m", "tests.benchmarks.works", work, str(partial / path.name)), check=True)
        partial.rename(path.parent)
    return path


def _gelus(target: Path) -> int:
    command = (sys.executable, str(HERE / "peers.py"), "gelus", str(target), "-")
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _table(work: str, results: dict[str, Result]) -> Iterator[str]:
    yield f"| {work}: {WORKS[work][0]} | seconds | MB | time | memory | GELUs |"
    yield "|---|--:|--:|--:|--:|--:|"
    first = next(iter(results.values()))
    for name, result in results.items():
        ratios = f"x{result.times(first):.2f} | x{result.megabytes / first.megabytes:.2f}"
        yield f"| {name} | {result.seconds:.2f} | {result.megabytes:.0f} | {ratios} | {result.gelus} |"


if __name__ == "__main__":
    sys.exit(main())
