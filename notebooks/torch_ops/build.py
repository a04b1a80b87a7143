"""Build my_add.cc into a Python module with the compiler of this system, and import it.

torch.utils.cpp_extension.load does the same, with ninja; its headers take several seconds, so what was built is kept
in ~/.cache/surgeon-torch-ops, by what it was built of.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import torch
from torch.utils.cpp_extension import include_paths, library_paths

from surgeon import UsageError

SOURCE = Path(__file__).with_name("my_add.cc")
CACHE = Path.home() / ".cache" / "surgeon-torch-ops"
COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-std=c++20", "-O0", "-w", "-fPIC", "-shared")
LIBRARIES = ("-ltorch", "-ltorch_cpu", "-lc10", "-ltorch_python")


def build(folder: "Path | str" = CACHE, source: "Path | str" = SOURCE) -> Path:
    """Compile the source, unless that was done before; return the path of the module.

    Raises UsageError without a compiler, or if it fails.
    """
    source = Path(source)
    made_of = (source.read_bytes(), torch.__version__.encode(), sys.version.encode(), " ".join(FLAGS).encode())
    output = Path(folder) / hashlib.sha256(b"\0".join(made_of)).hexdigest()[:16] / f"{source.stem}.so"
    if output.exists():
        return output
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise UsageError(f"No C++ compiler was found ({', '.join(COMPILERS)}): install one.")
    output.parent.mkdir(parents=True, exist_ok=True)
    headers = [f"-I{path}" for path in (*include_paths(), sysconfig.get_paths()["include"])]
    linked = [f"-L{path}" for path in library_paths()] + list(LIBRARIES)
    unfinished = output.with_suffix(f".{os.getpid()}")  # two may build at once
    command = [compiler, *FLAGS, *headers, str(source), "-o", str(unfinished), *linked]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        why = next((line for line in ran.stderr.splitlines() if "error" in line), "no reason given")
        raise UsageError(f"The compiler refuses {source.name} ({why}): correct it.")
    unfinished.replace(output)
    return output


def load() -> ModuleType:
    """Import the module; its operator is torch.ops.mylib.my_add from then on."""
    path = build()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python module: delete it, so that it is built again.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
