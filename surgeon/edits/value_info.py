"""Declares, infers or removes the shapes of inner tensors."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self

import onnx

from surgeon.errors import UsageError
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.traversal import graphs_and_functions
from surgeon.pipeline.editing.declared_dims import infer_declared_shapes
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit, parse_dtype, parse_pair
from surgeon.shapes.non_tensor_types import is_no_tensor
from surgeon.shapes.tensor_types import Shape, size_text


@dataclass(frozen=True, slots=True)
class ShapesOf(Edit):
    """Recompute the shapes of all inner tensors (infer), or remove them (drop).

    Raises:
        UsageError: `how` is neither of the two.

    Examples:
        >>> import surgeon
        >>> model = "notebooks/models/tiny_distilbert.onnx"
        >>> _, report = surgeon.edit(model, surgeon.edits.ShapesOf("drop"), output="bare.onnx")
        >>> report.outcome
        'proved'
    """

    how: Literal["infer", "drop"]
    """"infer" computes them from the inputs, for any size of the dynamic dimensions; "drop" removes them, in bodies
    and functions too.
    """
    flag = "shapes"
    metavar = "infer|drop"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read which of the two."""
        return cls(text)  # type: ignore[arg-type]  # `apply` refuses another value

    @property
    def spelling(self) -> str:
        """Which of the two."""
        return self.how

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Infer or drop them."""
        if self.how not in ("infer", "drop"):
            raise UsageError(f"Shapes cannot be {self.how!r}. Choose infer or drop.")
        before = [value.SerializeToString() for value in draft.graph.value_info]
        if self.how == "infer":
            stated = infer_declared_shapes(draft)
            after = [value.SerializeToString() for value in draft.graph.value_info]
            return (f"the shapes of {stated:,} inner tensors are declared",) if after != before else ()
        dropped = 0
        for holder in graphs_and_functions(draft.skeleton):
            dropped += len(holder.value_info)
            del holder.value_info[:]
        draft.changed()
        return (f"the declared types of {dropped:,} inner tensors are removed",) if dropped else ()


@dataclass(frozen=True, slots=True)
class StateTensor(Edit):
    """Declare the dtype and shape of a tensor, for example the output of a custom op.

    Exporters declare nothing after a custom op, but a cut or an output there needs both (ONNX IR spec, "Graphs").

    Raises:
        UsageError: no node produces the tensor, the dtype is unknown, or the type contradicts the inferred one.

    Examples:
        >>> import surgeon
        >>> state = surgeon.edits.StateTensor("gelu", "float32", ("batch", "?", 64))
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", state, output="stated.onnx")
        >>> report.edits[0].said, report.outcome
        (("'gelu' is declared as float32[batch, ?, 64]",), 'proved')
    """

    name: str
    """The name of the tensor."""
    dtype: str
    """The dtype by name: "float16", "int64"."""
    sizes: tuple[int | str, ...]
    """The sizes of its axes: a number, the name of a dynamic dimension, or "?"."""
    flag = "state"
    metavar = "TENSOR=DTYPE[SIZE,...]"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a tensor, a dtype and, in brackets, sizes."""
        name, declared = parse_pair(text, cls.metavar)
        dtype, bracket, sizes = declared.removesuffix("]").partition("[")
        if not dtype.strip() or not bracket or not declared.endswith("]"):
            raise UsageError(f"{text!r} is not of the form {cls.metavar}.")
        parts = [part.strip() for part in sizes.split(",")] if sizes.strip() else []
        return cls(name, dtype.strip(), tuple(int(part) if part.isdecimal() else part for part in parts))

    @property
    def spelling(self) -> str:
        """The tensor, the dtype and, in brackets, sizes."""
        return f"{self.name}={self.dtype}[{','.join(map(str, self.sizes))}]"

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Declare it."""
        graph, dtype = draft.graph, parse_dtype(self.dtype)
        draft.require_tensor(self.name)
        if not any(self.name in node.output for node in graph.node):
            raise UsageError(f"No node produces {self.name!r}. To change an input, use --dim, --free or --retype.")
        if not isinstance(self.sizes, (tuple, list)):
            raise UsageError(f"sizes of StateTensor must be a list with one size for each axis, not {self.sizes!r}.")
        bad = next((repr(size) for size in self.sizes if not _is_size(size)), None)
        if bad is not None:
            raise UsageError(f"Invalid size {bad}. Give a number, the name of a dynamic dimension, or ?.")
        if is_no_tensor(draft.skeleton, self.name):
            raise UsageError(f"{self.name!r} is a sequence or an optional, so it has no dtype and no shape to declare.")
        inferred = draft.told_of(self.name)
        own = f"{dtype_name(dtype)}[{', '.join(map(str, self.sizes))}]"
        if (inferred.dtype or dtype) != dtype or not _may_be(self.sizes, inferred.shape):
            known = dtype_name(inferred.dtype or dtype)
            known += "" if inferred.shape is None else f"[{', '.join(map(size_text, inferred.shape))}]"
            raise UsageError(f"{self.name!r} is {known} in the model, so it cannot be {own}.")
        value = onnx.helper.make_tensor_value_info(
            self.name, dtype, [None if size == "?" else size for size in self.sizes]
        )
        held = next((one for one in (*graph.output, *graph.value_info) if one.name == self.name), None)
        if held is None:
            held = graph.value_info.add(name=self.name)
        elif held.type == value.type:
            return ()
        held.type.CopyFrom(value.type)
        draft.changed()
        return (f"{self.name!r} is declared as {own}",)


def _is_size(size: object) -> bool:
    """Whether it is a size (int64, as in onnx.proto), the name of a dim, or "?"."""
    if isinstance(size, int):
        return not isinstance(size, bool) and 0 <= size < 1 << 63
    return isinstance(size, str) and (size == "?" or size.isidentifier())


def _may_be(sizes: tuple[int | str, ...], known: Shape | None) -> bool:
    """Whether sizes do not contradict an inferred shape."""
    if known is None:
        return True
    pairs = zip(sizes, known, strict=False)
    fits = all(size == own for size, own in pairs if isinstance(size, int) and isinstance(own, int))
    return len(sizes) == len(known) and fits
