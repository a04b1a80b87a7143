"""`python -m tests.tensorrt_prepared`: which models TensorRT takes before and after `rewrite --rules tensorrt`.

Each .onnx file in the folders given, or each model of the groups given (by default `kept`, the exports that the tests
have made and kept; `cases` are ONNX's own cases of single ops, `held` the same with what is a setting as a constant,
`real` models that others made, and `attention`, `architectures`, `exports` and `matrix` are exported here where they
are not kept): parsed, rewritten for TensorRT, parsed again, and with --build built for a GPU of SM86.  With --peers
onnxslim, onnxsim, polygraphy and ModelOpt's graph surgery stand beside it, and the outputs of each are compared with
the original's.  What is still refused is told with the reason; a model that was taken before and is not any more, and a
refusal that nothing explains, are told by name and make the exit code 1.  With --journal a run that broke off goes on
where it was.
"""

import argparse
import sys
from itertools import chain, islice
from pathlib import Path

from surgeon.runtime.tensorrt.library import installed
from tests.tensorrt_prepared.models import GROUPS, files_in
from tests.tensorrt_prepared.rows import Journal, Row, row_of
from tests.tensorrt_prepared.table import show
from tests.tensorrt_prepared.tools import OURS, PEERS


def main() -> int:
    """Run and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.tensorrt_prepared", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, default=[])
    parser.add_argument("--groups", default="", help=f"with commas: {', '.join(GROUPS)}")
    parser.add_argument("--build", type=int, nargs="?", const=1, default=0, metavar="N", help="build all, or one in N")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one in N")
    parser.add_argument("--match", default="", help="models whose name holds this")
    parser.add_argument("--peers", action="store_true", help="what others make of them too")
    parser.add_argument("--compare", action="store_true", help="run what came out beside the original")
    parser.add_argument("--each", action="store_true", help="a line for each model")
    parser.add_argument("--journal", type=Path, metavar="PATH", help="keep what was found, and go on from there")
    options = parser.parse_args()
    library = installed()
    if library is None:
        print("There is no tensorrt-rtx: pip install tensorrt-rtx.")
        return 2
    names = [name for name in options.groups.split(",") if name] or ([] if options.folders else ["kept"])
    if set(names) - set(GROUPS):
        parser.error(f"there is no group {sorted(set(names) - set(GROUPS))[0]!r}: choose from {', '.join(GROUPS)}")
    makers = chain(files_in(options.folders), *(GROUPS[name]() for name in names))
    tools = [OURS, *(PEERS if options.peers else ())]
    journal, rows, compare = Journal(options.journal), list[Row](), options.peers or options.compare
    for place, make in enumerate(islice(makers, 0, None, options.every)):
        sample = make()
        if sample is None or options.match not in sample.name:
            continue
        row = journal.get(sample.name)
        if row is None:
            build = bool(options.build) and place % options.build == 0
            row = row_of(sample, tools, build=build, compare=compare)
            journal.add(row)
        rows.append(row)
    title = f"{library.title} {library.version}"
    return show(rows, tools, title, build=bool(options.build), compare=compare, each=options.each)


if __name__ == "__main__":
    sys.exit(main())
