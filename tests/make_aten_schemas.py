"""Write surgeon/ops/data/aten_schemas.txt from the installed torch: `python tests/make_aten_schemas.py`.

The table holds the schemas of ATen and prims that return a tensor, a line each, sorted, without aliases and `aten::`:
the functional ones and those in place.  Out variants, backward formulas, and what belongs to one device are left out,
for no exported model has them.
"""

import re
import sys
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().parent.parent / "surgeon" / "ops" / "data" / "aten_schemas.txt"
_ALIAS = re.compile(r"\([a-z*|! ]*(?: -> [a-z*| ]*)?\)(?=[\[ ),?]|$)")
_OF_ONE_DEVICE = ("_mps", "mps_", "_mkldnn", "mkldnn", "miopen", "_miopen", "cudnn", "_cudnn", "_cslt", "_foreach")
_INTERNAL = ("_fbgemm", "fbgemm", "_sparse", "_nested", "_fw_primal", "_wrapped", "_test", "_cufft", "_fused_")


def lines() -> list[str]:
    """The lines of the table that the installed torch gives."""
    import torch

    found = (_line(one) for one in torch._C._jit_get_all_schemas() if _is_covered(one))
    return sorted(set(found))


def text() -> str:
    """The table."""
    import torch

    return f"# torch {torch.__version__.partition('+')[0]}\n" + "\n".join(lines()) + "\n"


def _is_covered(one: Any) -> bool:
    namespace, _, name = one.name.partition("::")
    if namespace not in ("aten", "prims") or "backward" in name or name.startswith((*_OF_ONE_DEVICE, *_INTERNAL)):
        return False
    if namespace == "prims" and name.startswith("_"):
        return False  # of the compiler, and there only once it is loaded
    if any(item.is_out for item in one.arguments) or "..." in str(one):
        return False
    return any("Tensor" in str(item.type) for item in one.returns)


def _line(one: Any) -> str:
    head, paren, rest = str(one).partition("(")
    return head.removeprefix("aten::") + paren + _ALIAS.sub("", rest)


if __name__ == "__main__":
    if "--print" in sys.argv:
        sys.stdout.write(text())
    else:
        TABLE.write_text(text(), encoding="utf-8")
        print(f"{TABLE}: {TABLE.stat().st_size} bytes")
