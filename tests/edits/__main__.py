"""`python -m tests.edits --table`: surgeon beside other tools on a hundred cuts and thirty merges.

sclblonnx is looked for where `--libraries` says; without it, its row says that it does not start.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.edits.table import EVERY, compare


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.edits", description=__doc__.partition("\n")[0])
    parser.add_argument("--table", action="store_true", required=True, help="print the tables in Markdown")
    parser.add_argument("--short", action="store_true", help="a few exports, and nothing that is large")
    parser.add_argument("--tools", default=",".join(EVERY), help="which tools, with commas")
    parser.add_argument("--libraries", default="", metavar="FOLDER", help="a folder of packages for the tools alone")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        for line in compare(Path(folder), asked.tools.split(","), short=asked.short, libraries=asked.libraries):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
