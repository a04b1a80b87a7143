"""Sizes that an export fixed, made free."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from onnx import ValueInfoProto

from surgeon.editing.dims import free_names
from surgeon.editing.draft import ModelDraft
from surgeon.editing.edit import Edit, pair
from surgeon.errors import UsageError
from surgeon.freeing.search import free_size
from surgeon.listing import counted, first_of
from surgeon.shapes.symbols import parse, symbol

PLACE = re.compile(r"^(?P<input>.+)\[(?P<axis>\d+)\]$")
NAMED = 3


@dataclass(frozen=True, slots=True)
class Free(Edit):
    """Free a size of the inputs that the export fixed: what holds it in the graph is found, and made to follow.

    Constants in Reshape, Expand, Slice, Range, ConstantOfShape, Tile and Resize, initial states and tokens that are
    repeated for each sample: each is told by where its number came from, so that a batch of 1 is not taken for any
    other 1.  What cannot be told is refused, with the node's name.

    The result is held against the original at the old size.  Where samples do not see one another, as in a batch, it is
    proved at 2 and 7 too: it answers as so many runs of the original do.  Elsewhere the report says at which sizes it
    ran, and that nothing can be compared there.

    Attributes:
        axis: which axis of the inputs.
        name: what to call the free dimension.
        input: the one input to free it of; None for all that have this axis.

    Raises:
        UsageError: no input has that axis fixed, the inputs have different sizes there, or the name is taken.
        GraphError: a node can be read in more than one way, or in none; it is named.

    Examples:
        >>> import surgeon
        >>> fixed, _ = surgeon.edit(
        ...     "notebooks/models/tiny_distilbert.onnx", surgeon.edits.Dim("batch", 1), output="one.onnx"
        ... )
        >>> _, report = surgeon.edit("one.onnx", surgeon.edits.Free(0, "batch"), output="free.onnx")
        >>> report.edits[0].said[0], report.outcome
        ("axis 0 of 'input_ids' and 'attention_mask' is free, as 'batch'; it was 1", 'proved')
    """

    axis: int
    name: str
    input: str | None = None
    flag = "free"
    metavar = "AXIS=NAME"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read AXIS=NAME or INPUT[AXIS]=NAME."""
        where, name = pair(text, "AXIS=NAME or INPUT[AXIS]=NAME, as in 0=batch")
        found = PLACE.match(where)
        if found is not None:
            return cls(int(found["axis"]), name, found["input"])
        if not where.isdecimal():
            raise UsageError(f"{where!r} is no axis; write AXIS=NAME or INPUT[AXIS]=NAME, as in 0=batch.")
        return cls(int(where), name)

    @property
    def spelling(self) -> str:
        """AXIS=NAME, or INPUT[AXIS]=NAME."""
        return f"{self.axis if self.input is None else f'{self.input}[{self.axis}]'}={self.name}"

    @property
    def alone(self) -> bool:
        """It is held against what stands before it at sizes that this does not take."""
        return True

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Free it."""
        if not self.name or parse(self.name) != symbol(self.name) or "?" in self.name:
            raise UsageError(f"{self.name!r} is no name of a dimension; give it a word, as in batch.")
        wanted = draft.inputs if self.input is None else [draft.input(self.input)]
        fixed = [value for value in wanted if _size(value, self.axis) is not None]
        if not fixed:
            if wanted and all(self._has_it(value) for value in wanted):
                return ()
            which = "No input has a" if self.input is None else f"The input {self.input!r} has no"
            raise UsageError(f"{which} fixed size on axis {self.axis}; name another.")
        if self.name in free_names(draft.skeleton):
            raise UsageError(f"Another free dimension is called {self.name!r}; choose another name.")
        sizes = {value.name: _size(value, self.axis) or 0 for value in fixed}
        old = next(iter(sizes.values()))
        other = next((name for name, size in sizes.items() if size != old), None)
        if other is not None:
            first = next(iter(sizes))
            raise UsageError(
                f"Axis {self.axis} of {first!r} has the size {old}, that of {other!r} {sizes[other]}; "
                f"name the input, as in {first}[{self.axis}]={self.name}."
            )
        if old < 1:
            raise UsageError(f"Axis {self.axis} of {fixed[0].name!r} has the size {old}; free one of at least 1.")
        for value in fixed:
            value.type.tensor_type.shape.dim[self.axis].dim_param = self.name
        draft.changed()
        nodes, freed = free_size(draft, self.name, old, dict.fromkeys(sizes, self.axis))
        draft.claim.freed.append(freed)
        draft.claim.by_structure = False
        names = [f"'{name}'" for name in sizes]
        listed = " and ".join(names) if len(names) < NAMED else first_of(names, NAMED)
        said = [f"axis {self.axis} of {listed} is free, as {self.name!r}; it was {old}"]
        if nodes:
            said.append(f"{counted(nodes, 'node')} held that size and follow{'s' * (nodes == 1)} it now")
        return said

    def _has_it(self, value: ValueInfoProto) -> bool:
        dims = value.type.tensor_type.shape.dim
        return self.axis < len(dims) and dims[self.axis].dim_param == self.name


def _size(value: ValueInfoProto, axis: int) -> int | None:
    """The fixed size of an input on an axis; None where there is none."""
    if value.type.WhichOneof("value") != "tensor_type":
        return None
    dims = value.type.tensor_type.shape.dim
    return int(dims[axis].dim_value) if axis < len(dims) and dims[axis].HasField("dim_value") else None
