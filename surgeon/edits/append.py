"""Appends argmax, softmax, sigmoid or top-k to a model's output."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, ValueInfoProto

from surgeon.errors import UsageError
from surgeon.ops.builder.graph import Graph, Tensor
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.pipeline.editing.draft import ModelDraft, unknown_type_error
from surgeon.pipeline.editing.edit import KeyedEdit
from surgeon.pipeline.editing.node_insertion import Build, add_nodes
from surgeon.pipeline.editing.prune import filter_repeated, prune
from surgeon.printed_commands import upgrade_to
from surgeon.proof.model.exposed_outputs import required_nodes
from surgeon.runtime.kernels.aten import sigmoid

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)


def replace_outputs(
    draft: ModelDraft,
    reads: Sequence[str],
    makes: Mapping[str, Callable[..., np.ndarray]],
    build: Build,
    *,
    keeps: bool,
    stated: Mapping[str, ValueInfoProto] | None = None,
    settings: Sequence[str] = (),
) -> list[str]:
    """Append nodes to outputs, and replace these by new outputs.

    reads: outputs, or inner tensors; these replace all outputs that are computed from them.  makes: by new output, its
    numpy function of the values of `reads`.  keeps: the old outputs stay too.  stated: types of new outputs that
    inference does not know.  settings: initializers that `build` receives after the tensors of `reads`.  Returns a
    sentence for each removed output that is not in `reads`.
    """
    sources = tuple(draft.claim.original(name) for name in reads)
    gone = [] if keeps else [value.name for value in draft.graph.output if _is_replaced(draft, value.name, reads)]
    taken = {name: draft.facts(name).type.tensor_type.elem_type for name in (*reads, *settings)}
    add_nodes(draft, build, taken, list(makes))
    for name, change in makes.items():
        draft.claim.answer(name, sources, change)
    known = stated or {}
    made = [known[name] if name in known else draft.facts(name) for name in makes]
    filter_repeated(draft.graph.output, lambda _, value: value.name not in gone)
    draft.graph.output.extend(made)
    if not set(gone) <= set(reads):
        prune(draft)
    draft.changed()
    return [f"output {name!r}, which is computed from it, is removed" for name in gone if name not in reads]


def _is_replaced(draft: ModelDraft, output: str, reads: Sequence[str]) -> bool:
    """Whether an output is in `reads`, or computed from inner tensors of `reads`."""
    inner = {name for name in reads if draft.kind(name) != "output"}
    return output in reads or not inner.isdisjoint(required_nodes(draft.graph, [output])[1])


def require_float_rank(draft: ModelDraft, name: str) -> int:
    """The rank of a float tensor.  Raises UsageError for another dtype or an unknown name."""
    if name not in draft.tensors():
        draft.output(name)
    dtype = draft.facts(name).type.tensor_type.elem_type
    if dtype not in FLOATS:
        raise UsageError(
            f"The {draft.kind(name)} {name!r} is {dtype_name(dtype)}, but this edit needs float16, float32 or float64."
        )
    found = draft.shapes.facts(draft.index.main, name)
    if found.shape is None:
        raise unknown_type_error(name, found)
    return len(found.shape)


@dataclass(frozen=True, slots=True)
class _OfScores(KeyedEdit):
    """Base of edits that read scores along an axis."""

    output: str
    """The output with the scores."""
    axis: int = -1
    """The axis of the scores.  A negative axis counts from the end."""
    keep: bool = False
    """Also keep the scores as an output."""

    def _axis(self, draft: ModelDraft) -> int:
        """The axis, not negative.  Raises UsageError if the output does not have it."""
        rank = require_float_rank(draft, self.output)
        if not -rank <= self.axis < rank:
            raise UsageError(f"{self.output!r} has {rank} axes, so axis {self.axis} does not exist.")
        return self.axis % rank


@dataclass(frozen=True, slots=True)
class AppendArgMax(_OfScores):
    """Replace scores with the index of the largest one along an axis, as int64: OUTPUT_argmax.

    Raises:
        UsageError: the output or the axis does not exist, or the output is not float.

    Examples:
        >>> import surgeon
        >>> edit = surgeon.edits.AppendArgMax("logits")
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", edit, output="classes.onnx")
        >>> report.edits[0].said, report.outcome
        (("output 'logits_argmax' is the index of the largest of 'logits' along axis 2",), 'proved')
    """

    flag = "append-argmax"
    jumps = True
    metavar = "OUTPUT[,axis=-1,keep]"

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Append it."""
        axis, name = self._axis(draft), draft.fresh(f"{self.output}_argmax")

        def build(g: Graph, x: Tensor) -> Tensor:
            return g.arg_max(x, axis=axis, keepdims=0)

        makes = {name: lambda x: np.asarray(x.argmax(axis=axis), np.int64)}
        also = replace_outputs(draft, [self.output], makes, build, keeps=self.keep)
        return (f"output '{name}' is the index of the largest of '{self.output}' along axis {axis}", *also)


@dataclass(frozen=True, slots=True)
class AppendSoftmax(_OfScores):
    """Replace scores with their softmax along an axis: OUTPUT_softmax.

    Raises:
        UsageError: the output or the axis does not exist, or the output is not float.

    Examples:
        >>> import surgeon
        >>> edit = surgeon.edits.AppendSoftmax("logits")
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", edit, output="probabilities.onnx")
        >>> report.edits[0].said, report.outcome
        (("output 'logits_softmax' is the softmax of 'logits' along axis 2",), 'proved')
    """

    flag = "append-softmax"
    metavar = "OUTPUT[,axis=-1,keep]"

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Append it."""
        axis, name = self._axis(draft), draft.fresh(f"{self.output}_softmax")

        def build(g: Graph, x: Tensor) -> Tensor:
            if int(g.opset) >= SOFTMAX_SINCE or axis == rank - 1:
                return g.softmax(x, axis=axis)
            raise UsageError(
                f"Softmax along an axis other than the last needs opset {SOFTMAX_SINCE}. "
                f"Raise it first: {upgrade_to(SOFTMAX_SINCE)}"
            )

        def computed(x: np.ndarray) -> np.ndarray:
            powers = np.exp(x.astype(np.float64) - x.max(axis=axis, keepdims=True))
            made: np.ndarray = (powers / powers.sum(axis=axis, keepdims=True)).astype(x.dtype)
            return made

        rank = require_float_rank(draft, self.output)
        also = replace_outputs(draft, [self.output], {name: computed}, build, keeps=self.keep)
        return (f"output '{name}' is the softmax of '{self.output}' along axis {axis}", *also)


@dataclass(frozen=True, slots=True)
class AppendSigmoid(KeyedEdit):
    """Replace each score with its sigmoid: OUTPUT_sigmoid.

    Raises:
        UsageError: the output does not exist, or is not float.

    Examples:
        >>> import surgeon
        >>> edit = surgeon.edits.AppendSigmoid("logits")
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", edit, output="probabilities.onnx")
        >>> report.edits[0].said, report.outcome
        (("output 'logits_sigmoid' is the sigmoid of 'logits'",), 'proved')
    """

    output: str
    """The output with the scores."""
    keep: bool = False
    """Also keep the scores as an output."""
    flag = "append-sigmoid"
    metavar = "OUTPUT[,keep]"

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Append it."""
        require_float_rank(draft, self.output)
        name = draft.fresh(f"{self.output}_sigmoid")

        def computed(x: np.ndarray) -> np.ndarray:
            made: np.ndarray = sigmoid(x.astype(np.float64)).astype(x.dtype)
            return made

        also = replace_outputs(draft, [self.output], {name: computed}, lambda g, x: g.sigmoid(x), keeps=self.keep)
        return (f"output '{name}' is the sigmoid of '{self.output}'", *also)


SOFTMAX_SINCE = 13  # first opset at which Softmax reads one axis, instead of flattening from it (ONNX changelog)


@dataclass(frozen=True, slots=True)
class AppendTopK(_OfScores):
    """Replace scores with the k largest along an axis and their indices: OUTPUT_values and OUTPUT_indices (int64).

    Raises:
        UsageError: the output or the axis does not exist, the output is not float, or the axis has fewer than k values.

    Examples:
        >>> import surgeon
        >>> edit = surgeon.edits.AppendTopK("logits", k=3)
        >>> _, report = surgeon.edit("notebooks/models/tiny_distilbert.onnx", edit, output="best.onnx")
        >>> report.edits[0].said, report.outcome
        (("outputs 'logits_values' and 'logits_indices' are the top 3 of 'logits' along axis 2",), 'proved')
    """

    k: int = 5
    """Number of largest values."""
    flag = "append-topk"
    jumps = True
    metavar = "OUTPUT[,k=5,axis=-1,keep]"
    setting_names = ("k", "axis", "keep")

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Append it."""
        axis = self._axis(draft)
        shape = draft.shapes.shape(draft.index.main, self.output)
        size = None if shape is None else shape[axis]
        if self.k < 1 or (isinstance(size, int) and size < self.k):
            raise UsageError(
                f"k is {self.k}, but {self.output!r} has {size} values along axis {axis}. "
                "Give at least 1, and at most that many."
            )
        values, places = draft.fresh(f"{self.output}_values"), draft.fresh(f"{self.output}_indices")

        def build(g: Graph, x: Tensor) -> Sequence[Tensor]:
            made: Sequence[Tensor] = g.top_k(x, np.array([self.k], np.int64), axis=axis)
            return made

        def order(x: np.ndarray) -> np.ndarray:
            found: np.ndarray = np.argsort(-x, axis=axis, kind="stable").take(range(self.k), axis=axis)
            return found

        makes = {values: lambda x: np.take_along_axis(x, order(x), axis), places: lambda x: order(x).astype(np.int64)}
        also = replace_outputs(draft, [self.output], makes, build, keeps=self.keep)
        return (f"outputs '{values}' and '{places}' are the top {self.k} of '{self.output}' along axis {axis}", *also)
