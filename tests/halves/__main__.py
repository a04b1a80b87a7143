"""`python -m tests.halves --table`: surgeon beside other converters on all exports of the tests.

onnxconverter-common and nvidia-modelopt run in the environment that `--peers` names; where they are not installed,
their columns say that they crash.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.halves.corpus import PLANTED
from tests.halves.table import Asked, tables
from tests.halves.tools import TOOLS

GROUPS = ("architectures", "attention", "matrix", "real")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.halves", description=__doc__.partition("\n")[0])
    parser.add_argument("--table", action="store_true", required=True, help="print the tables in Markdown")
    parser.add_argument("--each", type=int, default=1, metavar="N", help="one in N models of each group of exports")
    parser.add_argument("--most", type=float, default=float("inf"), metavar="MB", help="leave out what is larger")
    parser.add_argument("--plant", type=int, default=PLANTED, metavar="N", help="a large activation in N models")
    parser.add_argument("--build", type=int, default=0, metavar="N", help="TensorRT-RTX parses all, builds one in N")
    parser.add_argument("--tools", default=",".join(TOOLS), help="which converters, with commas")
    parser.add_argument("--groups", default=",".join(GROUPS), help="which groups, with commas")
    parser.add_argument("--peers", default=sys.executable, metavar="PYTHON", help="the Python of other converters")
    parser.add_argument("--log", type=Path, metavar="FILE", help="what was found; a later run goes on from there")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        groups = tuple(asked.groups.split(","))
        tools, how = asked.tools.split(","), Asked(asked.peers, asked.build, asked.log)
        size = asked.most * 1e6
        for line in tables(Path(folder), tools, groups, how, each=asked.each, most=size, plant=asked.plant):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
