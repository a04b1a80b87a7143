"""`python -m tests.halves --table`: surgeon beside other converters on all exports of the tests.

onnxconverter_common is looked for where `--libraries` says; without it, its column says that it crashes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.halves.table import tables
from tests.halves.tools import TOOLS

GROUPS = ("architectures", "attention", "matrix", "real")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.halves", description=__doc__.partition("\n")[0])
    parser.add_argument("--table", action="store_true", required=True, help="print the tables in Markdown")
    parser.add_argument("--short", action="store_true", help="a few models of each group")
    parser.add_argument("--tools", default=",".join(TOOLS), help="which converters, with commas")
    parser.add_argument("--groups", default=",".join(GROUPS), help="which groups, with commas")
    parser.add_argument("--libraries", default="", metavar="FOLDER", help="a folder of packages for the converters")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        groups = tuple(asked.groups.split(","))
        for line in tables(
            Path(folder), asked.tools.split(","), groups, short=asked.short, libraries=asked.libraries
        ):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
