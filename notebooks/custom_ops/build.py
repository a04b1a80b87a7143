"""Build custom_ops.cc into a shared library with the compiler of this system: `python build.py [custom_ops.so]`."""

import shutil
import subprocess
import sys
from pathlib import Path

from surgeon import UsageError

SOURCE = Path(__file__).with_name("custom_ops.cc")
COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")


def build(output: "Path | str" = "custom_ops.so", source: "Path | str" = SOURCE) -> Path:
    """Compile the source and return the path of the library.  Raises UsageError without a compiler, or if it fails."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise UsageError(
            f"No C++ compiler was found ({', '.join(COMPILERS)}): install one, "
            "or take custom_ops/implementations.py, which needs none."
        )
    ran = subprocess.run(
        [compiler, *FLAGS, str(source), "-o", str(output)], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        why = next((line for line in ran.stderr.splitlines() if "error" in line), "no reason given")
        raise UsageError(f"The compiler refuses {Path(source).name} ({why}): correct it.")
    return Path(output)


if __name__ == "__main__":
    print(build(*sys.argv[1:2]))
