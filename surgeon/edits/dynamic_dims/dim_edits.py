"""Edits of dynamic dims: fix a size, rename a dim, or declare two dims equal."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from surgeon.edits.dynamic_dims.fold_sizes import fold_constant_sizes
from surgeon.edits.dynamic_dims.make_dynamic import INPUT_AXIS, Free
from surgeon.errors import UsageError
from surgeon.pipeline.editing.declared_dims import (
    correct_output_shapes,
    dims_of,
    dynamic_dim_names,
    infer_declared_shapes,
    rename_dims,
    shape_inference_error,
)
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit, parse_pair
from surgeon.pipeline.editing.inline_branch import constant_ifs, inline_branches
from surgeon.shapes.algebra.size_expressions import SizeError, parse_size, substitute, symbol
from surgeon.shapes.constraints.input_dims import dynamic_dims, require_size, required_inputs
from surgeon.text import did_you_mean, format_count


@dataclass(frozen=True, slots=True)
class Dim(Edit):
    """Fix a dynamic dimension, and fold the shape arithmetic that becomes constant.

    An If whose condition becomes constant is replaced with the branch that it takes.

    A name instead of a size makes a fixed dimension dynamic, as `--free` does: `--dim images[0]=batch`.

    Raises:
        UsageError: no input has the dimension, or the size does not fit an expression that contains the dimension.

    Examples:
        >>> import surgeon
        >>> fix = surgeon.edits.Dim("batch", 4)
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", fix, output="fixed.onnx")
        >>> report.edits[0].said[0], report.outcome
        ("'batch' is 4", 'proved')
    """

    name: str
    """The name of the dynamic dimension, or `input[axis]`."""
    size: int | str
    """The size, or a name."""
    flag = "dim"
    metavar = "NAME=SIZE"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read NAME=SIZE or INPUT[AXIS]=SIZE."""
        name, size = parse_pair(text, "NAME=SIZE (for example height=640) or INPUT[AXIS]=NAME")
        return cls(name, int(size) if size.removeprefix("-").isdecimal() else size)

    @property
    def spelling(self) -> str:
        """NAME=SIZE."""
        return f"{self.name}={self.size}"

    @property
    def alone(self) -> bool:
        """Whether it makes a size dynamic."""
        return isinstance(self.size, str)

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Fix it, or make it dynamic."""
        if not isinstance(self.size, (int, str)) or isinstance(self.size, bool):
            raise UsageError(f"Dimension {self.name!r} cannot be {self.size}. Give an integer.")
        place = INPUT_AXIS.match(self.name)
        if isinstance(self.size, str):
            if place is None:
                raise UsageError(
                    f"Invalid size {self.size!r}. Give a number. To rename a dimension, use --rename-dim; "
                    f"to make a fixed one dynamic, use INPUT[AXIS], for example --dim images[0]={self.size}"
                )
            return Free(int(place["axis"]), self.size, place["input"]).apply(draft)
        if not 0 <= self.size < 1 << 63:  # onnx.proto: dim_value is an int64
            raise UsageError(f"Dimension {self.name!r} cannot be {self.size}. Give a number from 0 to 2^63 - 1.")
        name = self.name
        if place is not None:
            dims = draft.input(place["input"]).type.tensor_type.shape.dim
            axis = int(place["axis"])
            if axis >= len(dims):
                raise UsageError(f"Input {place['input']!r} has {len(dims)} axes, counted from 0, so none is {axis}.")
            if dims[axis].HasField("dim_value"):
                return self._require_same_size(dims[axis].dim_value)
            name = dims[axis].dim_param or name
        known = dynamic_dim_names(draft.skeleton)
        if name not in known:
            near = did_you_mean(name, known)
            raise UsageError(f"No input has a dynamic dimension {name!r}; {near}")
        require_size(name, self.size, dynamic_dims(list(required_inputs(draft.graph).values())))
        return self._fix(draft, name, self.size)

    def _require_same_size(self, size: int) -> Iterable[str]:
        if size != self.size:
            raise UsageError(f"{self.name!r} is fixed at {size}. Make it dynamic first, with --dim {self.name}=batch")
        return ()

    def _fix(self, draft: ModelDraft, name: str, size: int) -> Iterable[str]:
        place = INPUT_AXIS.match(name)
        before = frozenset(output for node, _ in constant_ifs(draft) for output in node.outputs)
        draft.claim.sizes.update(dict.fromkeys(_original_names(draft, name), size))
        if place is not None and name not in _declared_names(draft):
            draft.input(place["input"]).type.tensor_type.shape.dim[int(place["axis"])].dim_value = size
        else:
            for dim in dims_of(draft.skeleton):
                if dim.dim_param:
                    _substitute_size(dim, name, size)
        draft.changed()
        said = [f"{name!r} is {size:,}"]
        folded, taken = fold_constant_sizes(draft), 0
        while more := inline_branches(draft, before):  # an inlined branch may make further sizes constant
            taken += more
            folded += fold_constant_sizes(draft)
        wrong = shape_inference_error(draft.skeleton)  # after branches that are not taken are removed
        if wrong and not shape_inference_error(draft.before.skeleton):
            raise UsageError(f"With {name}={size} a node cannot run, {wrong}. Choose another size.")
        if taken:
            said.append(f"{format_count(taken, 'If')} replaced with the branch that the sizes select")
        if folded:
            said.append(f"{format_count(folded, 'node')} of shape arithmetic became constant")
            draft.claim.by_structure = False
        if draft.graph.value_info:
            infer_declared_shapes(draft)
        said += correct_output_shapes(draft)
        return said


def _substitute_size(dim: object, name: str, size: int) -> None:
    text = dim.dim_param.strip()  # type: ignore[attr-defined]  # a Dimension, which has no name in onnx's stubs
    try:
        found = substitute(parse_size(text), {name: size})
    except SizeError as error:
        raise UsageError(f"With {name}={size}, dimension {text!r} is not a number. Choose another size.") from error
    if isinstance(found, int):
        if found < 0:
            raise UsageError(f"With {name}={size}, dimension {text!r} would be {found}. Choose another size.")
        dim.dim_value = found  # type: ignore[attr-defined]  # as above
    elif found != parse_size(text):
        dim.dim_param = str(found)  # type: ignore[attr-defined]  # as above


@dataclass(frozen=True, slots=True)
class RenameDim(Edit):
    """Rename a dynamic dimension in all declared shapes, also in expressions.

    Raises:
        UsageError: the model does not have the dimension, or the new name is taken or invalid.

    Examples:
        >>> import surgeon
        >>> rename = surgeon.edits.RenameDim("batch", "N")
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", rename, output="renamed.onnx")
        >>> report.edits[0].said[0], report.outcome
        ("dimension 'batch' is renamed to 'N'", 'proved')
    """

    old: str
    """Its present name."""
    new: str
    """Its new name, which no other dimension may have."""
    flag = "rename-dim"
    metavar = "OLD=NEW"

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Rename it."""
        known = _known(draft, self.old)
        if self.old == self.new:
            return ()
        if parse_size(self.new) != symbol(self.new) or "?" in self.new or "[" in self.new:
            raise UsageError(f"Invalid dimension name {self.new!r}. Give a word, for example batch.")
        if self.new in known:
            raise UsageError(
                f"Another dimension is already called {self.new!r}. Choose another name. If both always have the same "
                f"size, use --join-dim {self.old}={self.new}"
            )
        draft.claim.dims[self.new] = _original_names(draft, self.old)
        _rename(draft, self.old, self.new)
        draft.changed()
        return (f"dimension {self.old!r} is renamed to {self.new!r}",)


@dataclass(frozen=True, slots=True)
class JoinDim(Edit):
    """Declare that two dynamic dimensions are equal. Both get the second name.

    If exporters receive dynamic axes without names, they write separate dimensions for each input, for example
    `input_ids_0` and `attention_mask_0`.  Rules that need the same batch in both inputs do not match then.

    Raises:
        UsageError: the model does not have one of the dimensions, or the second one has no name.

    Examples:
        >>> import surgeon
        >>> join = surgeon.edits.JoinDim("sequence", "batch")
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", join, output="square.onnx")
        >>> report.edits[0].said[0], report.outcome
        ("dimension 'sequence' equals 'batch', and has its name", 'proved')
    """

    name: str
    """The name of the dimension."""
    other: str
    """The equal dimension, whose name stays."""
    flag = "join-dim"
    metavar = "NAME=OTHER"

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Give both one name."""
        for name in (self.name, self.other):
            _known(draft, name)
        if self.name == self.other:
            return ()
        if INPUT_AXIS.match(self.other) is not None:
            raise UsageError(f"Dimension {self.other!r} has no name. Give it one with --rename-dim {self.other}=batch")
        draft.claim.dims[self.other] = (*_original_names(draft, self.other), *_original_names(draft, self.name))
        _rename(draft, self.name, self.other)
        draft.changed()
        return (f"dimension {self.name!r} equals {self.other!r}, and has its name",)


def _original_names(draft: ModelDraft, name: str) -> tuple[str, ...]:
    """Names in the original of a dynamic dim and of those declared equal to it."""
    place = INPUT_AXIS.match(name)
    if place is not None and name not in _declared_names(draft):
        return (f"{draft.claim.original(place['input'])}[{place['axis']}]",)
    return draft.claim.dims.get(name, (name,))


def _declared_names(draft: ModelDraft) -> set[str]:
    return {dim.dim_param.strip() for dim in dims_of(draft.skeleton) if dim.dim_param}


def _known(draft: ModelDraft, name: str) -> list[str]:
    """All dims of the model.  Raises UsageError if `name` is not one of them."""
    known = list(dict.fromkeys([*dynamic_dim_names(draft.skeleton), *sorted(_declared_names(draft))]))
    if name not in known:
        raise UsageError(f"The model has no dimension {name!r}; {did_you_mean(name, known)}")
    return known


def _rename(draft: ModelDraft, old: str, new: str) -> None:
    """Rename a dim in all declared shapes."""
    place = INPUT_AXIS.match(old)
    if place is not None and old not in _declared_names(draft):
        draft.input(place["input"]).type.tensor_type.shape.dim[int(place["axis"])].dim_param = new
    else:
        rename_dims(draft.skeleton, lambda name: new if name == old else name)
