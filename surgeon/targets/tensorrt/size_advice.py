"""Sizes that TensorRT needs before it builds an engine, and the commands that set them."""

from collections.abc import Iterator

from surgeon.ir.index import Index
from surgeon.printed_commands import command
from surgeon.shapes.constraints.input_dims import dynamic_dims, required_inputs
from surgeon.targets.lint.size_dependent_branches import SizedIf, sized_ifs


def reason_of(found: SizedIf) -> str:
    """Why TensorRT does not build an If for several sizes, a clause."""
    one, other = found.shapes
    decide, which = ("decides", "this size is") if len(found.dims) == 1 else ("decide", "these sizes are")
    return (
        f"its branches produce the shapes {one} and {other}, and {_listed(found.dims)} {decide} which: "
        f"TensorRT builds it only if {which} fixed"
    )


def fix_of(found: SizedIf) -> str:
    """The help for an If: the command that decides its condition."""
    given = [word for name in found.dims for word in ("--dim", f"{name}=N")]
    sizes = "this size" if len(found.dims) == 1 else "these sizes"
    return f"fix {sizes}, which removes the If: {command('edit', 'IN', 'OUT', *given)}"


def next_steps(index: Index) -> Iterator[str]:
    """The next steps for a model before it is built, a clause each."""
    for found in sized_ifs(index):
        yield f"If at {found.node.label}: {reason_of(found)}; {fix_of(found)}"
    free = dynamic_dims(list(required_inputs(index.main.proto).values()))
    if free:
        build = command("check", "OUT", "--target", "tensorrt", "--build")
        dims = f"the dim {_listed(tuple(free))} is" if len(free) == 1 else f"the dims {_listed(tuple(free))} are"
        yield f"{dims} dynamic; to find sizes for which TensorRT builds the model: {build}"


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
