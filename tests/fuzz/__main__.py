"""`python -m tests.fuzz`: random models until the time is over; exit code 1 where something is wrong."""

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from tests.fuzz.jobs import Finding
from tests.fuzz.working import work

LONGEST = 600  # seconds that one model may take with all that is done to it
TASKS = 40  # models until a worker is replaced: what earlier ones left behind is to hide nothing


def main() -> int:
    """Run the fuzzer."""
    options = _options()
    until = time.monotonic() + options.seconds
    done: Counter[str] = Counter()
    wrong: list[tuple[int, Finding]] = []
    pool = None
    number = options.only if options.only is not None else 0
    try:
        while options.only is not None or time.monotonic() < until:
            pool = pool or ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=TASKS)
            try:
                counts, found = pool.submit(work, options.seed, number, options.keep).result(LONGEST)
            except (TimeoutError, BrokenProcessPool) as error:
                counts, found = Counter(), [Finding("a defect", "all jobs", f"{type(error).__name__}: {error}")]
                for process in list((pool._processes or {}).values()):
                    process.kill()
                pool = None
            done.update(counts)
            for item in found:
                print(f"{number}: {item.kind}: {item.job}\n    {item.text}", flush=True)
            wrong += [(number, item) for item in found]
            if options.only is not None:
                break
            number += 1
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
    kinds = Counter(item.kind for _, item in wrong)
    print(", ".join(f"{count:,} {name}" for name, count in sorted(done.items())), f"(seed {options.seed})")
    print("nothing is wrong" if not wrong else ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one model by its number")
    parser.add_argument("--keep", help="a folder for models with which something is wrong")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
