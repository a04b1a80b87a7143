"""Facts that the result of a proof depends on, except its case: versions, the code that proves, and the processor."""

import os
import platform
import sys
from functools import cache
from hashlib import blake2b
from pathlib import Path

import numpy as np

from surgeon.versions import runtimes, version, versions

# The packages whose code runs a case and judges: `proof`, and all that it imports for that.  What makes cases, as rules
# do, shows in the case.
ENGINE = ("analysis", "file", "ir", "ops", "proof", "runtime", "shapes")
_HOME = Path(__file__).parents[2]  # of all packages
_CPU_INFO = Path("/proc/cpuinfo")
_FIRST_CORE = 1 << 14  # bytes of that file that hold the first core: some 2 kB on x86; all cores of a server take long


@cache
def environment() -> str:
    """A hash of all that changes the results of equal proofs on this machine.

    Versions of Python, surgeon, ONNX Runtime (each installed distribution), onnx, numpy and ml_dtypes; the source of
    the proof engine, which a checkout changes without its version; and the features of the processor, by which ONNX
    Runtime and numpy choose kernels that round differently.
    """
    installed = {**versions(), **{name: version(name) for name in (*runtimes(), "ml_dtypes")}}
    content = (sorted(installed.items()), _engine_hash(), sys.platform, platform.machine(), _cpu_features())
    return blake2b(repr(content).encode(), digest_size=16).hexdigest()


def _engine_hash() -> str:
    """A hash of the engine's source and tables; 2 MB in 280 files take 11 ms."""
    found = blake2b(digest_size=16)
    paths = [*_HOME.glob("*.py"), *(path for package in ENGINE for path in (_HOME / package).rglob("*.*"))]
    for path in sorted(path for path in paths if path.suffix in (".py", ".json", ".txt")):
        found.update(f"{path.relative_to(_HOME)}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def _cpu_features() -> tuple[object, ...]:
    """The features that numpy finds, and those that the system reports, which are more (AVX-VNNI, AMX)."""
    found = np.show_config(mode="dicts") or {}
    try:
        with _CPU_INFO.open("rb") as file:
            lines = file.read(_FIRST_CORE).decode("latin-1").splitlines()
    except OSError:  # other systems than Linux
        lines = []
    reported = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    return (
        sorted(found.get("SIMD Extensions", {}).get("found", ())),
        sorted(set(reported.partition(":")[2].split())),
        os.environ.get("PROCESSOR_IDENTIFIER", ""),  # on Windows: family, model and stepping
    )
