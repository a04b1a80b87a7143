"""Learns patterns from exports: `surgeon.torch.pattern` for rules, `surgeon.torch.learn` for their text."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from onnx import numpy_helper

from surgeon.authoring.learning.generalise import StructuresDiffer
from surgeon.authoring.learning.learn import LearnedOperation, add, add_known, name_forms
from surgeon.authoring.learning.terms import Example
from surgeon.errors import SurgeonError, UsageError
from surgeon.file.tensors.decoding import Array
from surgeon.torch.exporters import builtin_mappings
from surgeon.torch.exporters.module_export import export
from surgeon.torch.pattern_learning.operation import Operation, as_operation
from surgeon.torch.pattern_learning.variations import (
    Variation,
    float_attributes,
    original,
    vary_floats,
    vary_integers,
    vary_sizes,
    weight_tensors,
)

OPSETS = {"dynamo": (18, 20, 23), "torchscript": (14, 17, 18, 20)}  # the exports differ between these
SKIPPED = 8  # floats of the third example, to differ from the second


@dataclass(frozen=True)
class ExportMode:
    """The settings of one export."""

    exporter: Any
    """"dynamo" or "torchscript"."""
    opset: int
    """The version of ai.onnx."""
    has_dynamic_sizes: bool = False
    """Whether sizes that can vary are dynamic dims."""

    @property
    def label(self) -> str:
        """The settings in a sentence, such as "dynamo 18"."""
        return f"{self.exporter}{' with dynamic sizes' * self.has_dynamic_sizes} {self.opset}"


def learn_from_exports(
    subject: Operation,
    inputs: Sequence[torch.Tensor],
    runs: Sequence[ExportMode],
    vary: Mapping[str, Any] | None,
    placeholders: Any,
    *,
    free_sizes: bool,
    is_strict: bool,
) -> LearnedOperation:
    """Learn the forms of an operation from its exports.

    runs: exporters and opsets.  is_strict: raise errors of exporters and comparisons; otherwise they are recorded, as
    long as a form is learned.
    """
    lesson = LearnedOperation(subject.title, [])
    first = original(subject, inputs)
    plan = _plan(subject, inputs, first, vary)
    source = _Source(subject, inputs, placeholders, _dynamic_sizes(subject, inputs, first) if free_sizes else {})
    runs = _possible(runs)
    failed: SurgeonError | None = None
    for run in [*runs, *(replace(run, has_dynamic_sizes=True) for run in runs if source.free)]:
        try:
            _learn_one(lesson, source, run, plan)
        except SurgeonError as error:
            if is_strict:
                raise
            failed = failed or error
            lesson.add_failure(run.label, str(error))
    if not lesson.forms and failed is not None:
        raise failed
    name_forms(lesson)
    lesson.about = list(_about(subject, first, plan.most))
    return lesson


def _possible(runs: Sequence[ExportMode]) -> list[ExportMode]:
    """The runs at opsets that the exporter writes.  Raises UsageError for an unknown exporter."""
    for run in runs:
        builtin_mappings.require_exporter(run.exporter, None)
    found = [run for run in runs if run.opset >= builtin_mappings.OPSETS[run.exporter][0]]
    if not found:
        exporter = runs[0].exporter
        first = builtin_mappings.OPSETS[exporter][0]
        raise UsageError(f"The {exporter} exporter writes opset {first} and later. Choose one of these.")
    return found


@dataclass
class _Variations:
    """The variants to export."""

    first: Variation
    """The operation as given."""
    groups: tuple[tuple[Variation, ...], ...]
    """Groups to compare with the first until the structures agree; each varies less: integers, floats, then sizes."""
    third: Variation | None
    """The operation with a third set of floats; None if it has no floats."""
    general: tuple[Variation, ...] = ()
    """Variants to learn a second form from, if other floats change the structure."""

    @property
    def most(self) -> Variation:
        """The variant with most changes."""
        return self.groups[0][0]


def _plan(
    subject: Operation, inputs: Sequence[torch.Tensor], first: Variation, vary: Mapping[str, Any] | None
) -> _Variations:
    sizes = vary_sizes(subject, inputs, first)
    floats = vary_floats(subject, inputs, sizes, vary)
    counts = vary_integers(subject, inputs, floats) if vary is None else floats
    groups: list[tuple[Variation, ...]] = [(counts, floats)] if counts != floats else []
    groups += [(floats,), (sizes,)] if floats != sizes else [(floats,)]
    if floats == sizes or vary is not None:
        return _Variations(first, tuple(groups), None)
    third = vary_floats(subject, inputs, replace(first, seed=2), None, skip=SKIPPED)
    return _Variations(first, tuple(groups), third)


def _learn_one(lesson: LearnedOperation, source: "_Source", run: ExportMode, plan: _Variations) -> None:
    """Learn the form of one exporter at one opset.

    If the structure depends on the hyper-parameters (a factor of 1 is omitted), there are two forms: that of the given
    ones, and that of other ones.
    """
    first = source.example(plan.first, run)
    if add_known(lesson, first):
        if plan.general:
            _learn_general(lesson, source, run, plan)
        return
    failed: StructuresDiffer | None = None
    for group in plan.groups:
        try:
            add(lesson, [first, *(source.example(variant, run) for variant in group)])
        except StructuresDiffer as error:
            failed = failed or error
        else:
            break
    else:
        if failed is not None:
            raise failed
    if failed is not None and plan.third is not None and group is plan.groups[-1]:
        plan.general = plan.groups[-2][0], plan.third
        _learn_general(lesson, source, run, plan)


def _learn_general(lesson: LearnedOperation, source: "_Source", run: ExportMode, plan: _Variations) -> None:
    """Learn the form of an operation with other hyper-parameters than the given ones."""
    try:
        add(lesson, [source.example(one, run) for one in plan.general])
    except UsageError as error:
        lesson.add_failure(f"{run.label} with other hyper-parameters", str(error))


def _dynamic_sizes(subject: Operation, inputs: Sequence[torch.Tensor], first: Variation) -> dict[str, dict[int, str]]:
    """Unique names for the sizes that can vary without a change of the module, by input and axis."""
    other = vary_sizes(subject, inputs, first, with_arguments=False)
    found = {
        f"input_{place}": {
            axis: f"size_{place}_{axis}"
            for axis, (size, new) in enumerate(zip(before, after, strict=True))
            if size != new
        }
        for place, (before, after) in enumerate(zip(first.shapes, other.shapes, strict=True))
    }
    return {name: axes for name, axes in found.items() if axes}


class _Source:
    """Exports examples.  free: the dynamic dims by input name and axis."""

    def __init__(
        self, subject: Operation, inputs: Sequence[torch.Tensor], placeholders: Any, free: dict[str, dict[int, str]]
    ) -> None:
        self.subject, self.inputs, self.placeholders, self.free = subject, inputs, placeholders, free
        self.names = subject.names(len(inputs))
        self.made: dict[tuple[int, ExportMode], Example] = {}

    def example(self, variant: Variation, run: ExportMode) -> Example:
        """The export of a variant, made once."""
        key = id(variant), run
        if key not in self.made:
            self.made[key] = self._export(variant, run)
        return self.made[key]

    def _export(self, variant: Variation, run: ExportMode) -> Example:
        module = variant.module(self.subject)
        written = export(
            module,
            variant.inputs(self.inputs),
            exporter=run.exporter,
            opset=run.opset,
            placeholders=self.placeholders,
            input_names=[f"input_{place}" for place in range(len(self.inputs))],
            dynamic_shapes=self.free if run.has_dynamic_sizes else None,
        ).model
        stored = dict(_weights_in(written, module))
        arguments = {**self.subject.arguments, **variant.arguments}
        floats = {name: value for name, value in arguments.items() if type(value) in (int, float)}
        kept = {path: value for path, value in float_attributes(module).items() if value not in floats.values()}
        return Example(written, run.label, self.names, weights=stored, hyperparameters={**floats, **_by_leaf(kept)})


def _weights_in(model: Any, module: torch.nn.Module) -> Iterator[tuple[str, str]]:
    """The module parameter in each initializer, by value; it may be transposed or reshaped."""
    known: dict[bytes, str] = {}
    names = dict(weight_tensors(module))
    names_of = _parameter_names(list(names))
    for name, tensor in names.items():
        array = tensor.detach().float().numpy()
        for turned in (array, array.T):
            known.setdefault(_bytes(turned), names_of[name])
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind in "fV" and _bytes(array) in known:
            yield tensor.name, known[_bytes(array)]


def _bytes(array: Array) -> bytes:
    return array.astype("float32").reshape(-1).tobytes()


def _parameter_names(paths: Sequence[str]) -> dict[str, str]:
    """Identifiers for paths: the last part if it is unique and the others are numbers, else all parts, numbers last."""
    leaves = Counter(path.rpartition(".")[2] for path in paths)
    found = {}
    for path in paths:
        *parents, leaf = path.split(".")
        is_short = leaves[leaf] == 1 and all(map(str.isdigit, parents))
        found[path] = leaf if is_short else "_".join(sorted([*parents, leaf], key=str.isdigit))
    return found


def _by_leaf(values: Mapping[str, float]) -> dict[str, float]:
    names_of = _parameter_names(list(values))
    return {names_of[path]: value for path, value in values.items()}


def _about(subject: Operation, first: Variation, other: Variation) -> Iterator[str]:
    """Sentences about the examples; the docstring of a rule contains them."""
    given = ", ".join(f"{name}={subject.arguments[name]!r}" for name in sorted(subject.given))
    shapes = [", ".join(str(list(shape)) for shape in variant.shapes) for variant in (first, other)]
    yield f"From {subject.title}({given}) with inputs of {shapes[0]}, and again of {shapes[1]}."
    fixed = [
        f"axis {axis} of input {place} ({size})"
        for place, (before, after) in enumerate(zip(first.shapes, other.shapes, strict=True))
        for axis, (size, new) in enumerate(zip(before, after, strict=True))
        if size == new
    ]
    if fixed:
        yield f"Not varied, so dependent values stay literal: {', '.join(fixed)}."
    changed = [*other.arguments, *other.attributes]
    if changed:
        yield f"Varied: {', '.join(changed)}."


def pattern(
    what: Any,
    *inputs: torch.Tensor,
    arguments: Mapping[str, Any] | None = None,
    exporters: Sequence[str] | None = None,
    opsets: Sequence[int] | None = None,
    vary: Mapping[str, Any] | None = None,
    placeholders: Iterable[Any] | Mapping[Any, str] = (),
    free_sizes: bool = False,
) -> list[Callable[..., Any]]:
    """Pattern functions for the nodes that exporters write for a module or function, for use in a rule.

    The operation is exported at least twice, with different sizes, weights and hyper-parameters.  Values that differ
    become holes, and equal values become literals.  The parameters of a pattern are the input tensors, then the
    weights, then the numbers of the operation, with their names in torch (`eps` is `epsilon`).  Equal forms occur once.

    Args:
        what: an nn.Module; a module class or a factory, with its `arguments`; a function of tensors; or the name of one
            of these, such as "torch.nn:GELU".
        inputs: example tensors, in order.
        arguments: arguments of the class or factory, by name.
        exporters: "dynamo", "torchscript" or both; by default those that can write the operation.
        opsets: of ai.onnx; by default those at which the exporters write different nodes.
        vary: other values of hyper-parameters, by the name of an argument or of a float attribute of the module.  {}
            changes none; None changes every float, and integers among `arguments`.  Sizes are changed if the operation
            accepts it, together with integer arguments that equal the size.
        placeholders: as for `surgeon.torch.export`.
        free_sizes: also export with dynamic sizes, for models that are exported so.  If a size is computed from a
            shape, the exporters write other nodes.

    Returns:
        One function for each form, for `@rule(patterns=...)`.

    Raises:
        UsageError: the operation rejects the inputs, the exports differ in structure (the message lists the nodes), or
            a pattern cannot express the operation.
        ExportError: an exporter fails.  By default, exporters that cannot write the operation are left out.

    Examples:
        >>> import torch, surgeon.torch
        >>> found = surgeon.torch.pattern(torch.nn.Hardswish(), torch.randn(2, 3), exporters=["torchscript"])
        >>> len(found)
        1
    """
    lesson = learn(
        what,
        *inputs,
        arguments=arguments,
        exporters=exporters,
        opsets=opsets,
        vary=vary,
        placeholders=placeholders,
        free_sizes=free_sizes,
    )
    return lesson.functions


def learn(
    what: Any,
    *inputs: torch.Tensor,
    arguments: Mapping[str, Any] | None = None,
    exporters: Sequence[str] | None = None,
    opsets: Sequence[int] | None = None,
    vary: Mapping[str, Any] | None = None,
    placeholders: Iterable[Any] | Mapping[Any, str] = (),
    free_sizes: bool = False,
    title: str | None = None,
) -> LearnedOperation:
    """The forms that exporters write, with `text()`, `functions` and a skeleton `rule`.

    Args:
        what: as for `pattern`.
        inputs: as for `pattern`.
        arguments: as for `pattern`.
        exporters: as for `pattern`.
        opsets: as for `pattern`.
        vary: as for `pattern`.
        placeholders: as for `pattern`.
        free_sizes: as for `pattern`.
        title: name of the operation in the file.

    Returns:
        The lesson.

    Raises:
        UsageError: as for `pattern`.
        ExportError: as for `pattern`.

    Examples:
        >>> import torch, surgeon.torch
        >>> lesson = surgeon.torch.learn(torch.nn.Hardswish(), torch.randn(2, 3), exporters=["torchscript"])
        >>> len(lesson.functions)
        1
    """
    strangers = [item for item in inputs if not isinstance(item, torch.Tensor)]
    if strangers or not inputs:
        found = f"{type(strangers[0]).__name__}" if strangers else "none"
        raise UsageError(f"Example inputs must be tensors, but {found} was given. Give one tensor for each input.")
    return learn_from_exports(
        as_operation(what, dict(arguments or {}), title),
        inputs,
        [
            ExportMode(name, opset)
            for name in exporters or OPSETS
            for opset in sorted(set(opsets or OPSETS.get(name, (18,))))
        ],
        vary=vary,
        placeholders=placeholders,
        free_sizes=free_sizes,
        is_strict=exporters is not None and opsets is not None,
    )
