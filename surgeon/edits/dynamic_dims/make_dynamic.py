"""Makes a fixed input dimension dynamic (edit `Free`)."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from onnx import ValueInfoProto

from surgeon.edits.dynamic_dims.choose_solution import make_inner_size_dynamic, make_size_dynamic
from surgeon.errors import UsageError
from surgeon.pipeline.editing.claim import DynamicDimsClaim
from surgeon.pipeline.editing.declared_dims import dynamic_dim_names
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit, parse_pair
from surgeon.printed_commands import command
from surgeon.shapes.algebra.size_expressions import parse_size, symbol
from surgeon.text import format_count, join_first

INPUT_AXIS = re.compile(r"^(?P<input>.+)\[(?P<axis>\d+)\]$")
NAMED = 3


@dataclass(frozen=True, slots=True)
class Free(Edit):
    """Make a fixed input dimension dynamic. Nodes in the graph that contain the old size are updated.

    The size may be in constants of Reshape, Expand, Slice, Range, ConstantOfShape, Tile and Resize, in the trip count
    of a Loop, in initial states, and in tokens and queries that are repeated for each sample.  Each is recognised by
    the origin of its number, so a batch of 1 is not confused with any other 1.  The edit also works if the inputs
    already declare the size as dynamic, but the graph still contains the size of the trace.

    Both models are compared at the old size.  In a batch, samples are independent, so the result is also proved for 1,
    2 and 7 samples: each must equal the original's output for that sample.  The same runs choose between several
    interpretations of a graph.  For other dimensions, the report lists the sizes at which the model ran, and says that
    nothing can be compared there.

    Raises:
        UsageError: no input has a fixed size on the axis, the inputs have different sizes there, or the name is taken.
        GraphError: no interpretation of the graph is known to be right; the message names a node.

    Examples:
        >>> import surgeon
        >>> fixed, _ = surgeon.edit(
        ...     "notebooks/models/tiny_distilbert.onnx", surgeon.edits.Dim("batch", 1), output="one.onnx"
        ... )
        >>> _, report = surgeon.edit("one.onnx", surgeon.edits.Free(0, "batch"), output="free.onnx")
        >>> report.edits[0].said[0], report.outcome
        ("axis 0 of 'input_ids' and 'attention_mask' is dynamic, as 'batch' (it was 1)", 'proved')
    """

    axis: int
    """The axis of the inputs."""
    name: str
    """The name of the dynamic dim."""
    input: str | None = None
    """The input with the axis; None for all inputs that have this axis."""
    flag = "free"
    metavar = "AXIS=NAME"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read AXIS=NAME or INPUT[AXIS]=NAME."""
        where, name = parse_pair(text, "AXIS=NAME or INPUT[AXIS]=NAME (for example 0=batch)")
        found = INPUT_AXIS.match(where)
        if found is not None:
            return cls(int(found["axis"]), name, found["input"])
        if not where.isdecimal():
            raise UsageError(f"Invalid axis {where!r}. Give AXIS=NAME or INPUT[AXIS]=NAME, for example 0=batch")
        return cls(int(where), name)

    @property
    def spelling(self) -> str:
        """AXIS=NAME, or INPUT[AXIS]=NAME."""
        return f"{self.axis if self.input is None else f'{self.input}[{self.axis}]'}={self.name}"

    @property
    def alone(self) -> bool:
        """Yes: it is checked at sizes that the model before it does not accept."""
        return True

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Make it dynamic."""
        if not self.name or parse_size(self.name) != symbol(self.name) or "?" in self.name:
            raise UsageError(f"Invalid dimension name {self.name!r}. Give a word, for example batch.")
        wanted = draft.inputs if self.input is None else [draft.input(self.input)]
        fixed = {value.name: size for value in wanted if (size := _size(value, self.axis)) is not None}
        if not fixed:
            return self._declared(draft, wanted)
        if self.name in dynamic_dim_names(draft.skeleton):
            raise UsageError(f"Another dynamic dimension is already called {self.name!r}. Choose another name.")
        first, old = next(iter(fixed.items()))
        other = next((name for name, size in fixed.items() if size != old), None)
        if other is not None:
            raise UsageError(
                f"Axis {self.axis} has size {old} in {first!r}, but {fixed[other]} in {other!r}. "
                f"Choose an input, for example {first}[{self.axis}]={self.name}"
            )
        if old < 1:
            raise UsageError(f"Axis {self.axis} of {first!r} has size {old}. Choose an axis with a size of at least 1.")
        for name in fixed:
            draft.input(name).type.tensor_type.shape.dim[self.axis].dim_param = self.name
        draft.changed()
        nodes, claim = make_size_dynamic(draft, self.name, old, dict.fromkeys(fixed, self.axis))
        names = [f"'{name}'" for name in fixed]
        listed = " and ".join(names) if len(names) < NAMED else join_first(names, NAMED)
        said = f"axis {self.axis} of {listed} is dynamic, as {self.name!r} (it was {old})"
        return _claimed(draft, claim, said, nodes)

    def _declared(self, draft: ModelDraft, wanted: Sequence[ValueInfoProto]) -> Iterable[str]:
        """Make an axis dynamic that is declared dynamic while the graph still contains the size of the trace."""
        names = {name: None for value in wanted if (name := _name(value, self.axis)) is not None}
        if not names or (self.name not in names and self.name in dynamic_dim_names(draft.skeleton)):
            which = "No input has a" if self.input is None else f"The input {self.input!r} has no"
            raise UsageError(f"{which} fixed size on axis {self.axis}. Choose another axis.")
        other = next(filter(None, names), None)
        if self.name not in names and other is not None:
            place = self.axis if self.input is None else f"{self.input}[{self.axis}]"
            how = command("edit", "IN", "OUT", "--free", f"{place}={other}")
            raise UsageError(f"Axis {self.axis} is already dynamic, as {other!r}. Use that name: {how}")
        unnamed = [value for value in wanted if _name(value, self.axis) == ""]
        for value in unnamed:
            value.type.tensor_type.shape.dim[self.axis].dim_param = self.name
            draft.changed()
        feeds = {value.name: axis for value in draft.inputs if (axis := _axis(value, self.name)) is not None}
        found = make_inner_size_dynamic(draft, self.name, feeds)
        if found is None:
            return [f"axis {self.axis} of {_listed(unnamed)} is called {self.name!r}"] if unnamed else ()
        nodes, claim = found
        draft.claim.sizes[self.name] = claim.old
        said = f"the inputs declare {self.name!r} as dynamic, but the graph still contained {claim.old}"
        return _claimed(draft, claim, said, nodes)


def _claimed(draft: ModelDraft, claim: DynamicDimsClaim, first: str, nodes: int) -> list[str]:
    """Add the claim of a dynamic size to the draft; returns the sentences of the report."""
    draft.claim.freed.append(claim)
    draft.claim.by_structure = False
    more = [f"{format_count(nodes, 'node')} with that size now follow{'s' * (nodes == 1)} it"] if nodes else []
    return [first, *more]


def _listed(values: Sequence[ValueInfoProto]) -> str:
    return " and ".join(repr(value.name) for value in values)


def _name(value: ValueInfoProto, axis: int) -> str | None:
    """Name of a dynamic dim of an input, empty if it has none; None if the axis is fixed or absent."""
    dims = value.type.tensor_type.shape.dim
    return dims[axis].dim_param if axis < len(dims) and not dims[axis].HasField("dim_value") else None


def _axis(value: ValueInfoProto, name: str) -> int | None:
    """The first axis of an input that is a dynamic dim of this name."""
    return next((axis for axis, dim in enumerate(value.type.tensor_type.shape.dim) if dim.dim_param == name), None)


def _size(value: ValueInfoProto, axis: int) -> int | None:
    """Fixed size of an input on an axis; None if there is none."""
    if value.type.WhichOneof("value") != "tensor_type":
        return None
    dims = value.type.tensor_type.shape.dim
    return int(dims[axis].dim_value) if axis < len(dims) and dims[axis].HasField("dim_value") else None
