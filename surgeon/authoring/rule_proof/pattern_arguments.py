"""Shapes and values for the parameters of a pattern: those of a given rank that its ops take."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, product
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto

from surgeon.authoring.rule_proof.instances import CannotInstantiate, Shape, attribute_values, build_instance
from surgeon.authoring.rule_proof.shape_solver import SolvedShapes, fit
from surgeon.authoring.rule_proof.variants import PatternVariant, operations_of, parameters_of
from surgeon.ir.scope import qualified_name
from surgeon.ops.schemas import schema
from surgeon.ops.traits.op_traits import OpTraits
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.rules.matching.pattern import NodePattern, Pattern, Var
from surgeon.runtime.inputs.input_generator import InputsUnknown, generate_inputs
from surgeon.runtime.quirks import may_crash
from surgeon.runtime.sessions.oracle import open_oracle
from surgeon.runtime.sessions.ort_session import SessionError

RANKS = (3, 2, 1, 0, 4)  # the usual one first
SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 6, "f": 7}  # what symbols stand for where a size has to be known
EVEN = {"a": 2, "b": 8, "c": 4, "d": 6, "e": 10, "f": 12}  # the same for what is split into groups
SEARCHED, SEARCHED_SHORT = 240, 80  # shapes and values tried for one rank
MOST_TRIED = 1500  # of them where a rule spares all usual ones
FRUITLESS = 40  # of them that were run, and none of them ran
MOST_SHAPES = 10  # of one rank, kept
MOST_FEWER = 3  # as many axes, or fewer by less than this
LOW = -3e38  # what stands for minus infinity where a condition chooses it, near the least float32
MOST_VALUES = 5  # sets of captured values for the first shapes of a rank, kept; other shapes get one


@dataclass(frozen=True, slots=True)
class PatternArguments:
    """Shapes of captured tensors, symbols as strings, and values of captured numbers, lists and strings.

    kind: "shapes" for symbols, "fixed" where their sizes are known, "ones" where every free dim is 1, "empty" where one
    is 0, "unstated" where the model does not state the shapes.
    """

    rank: int
    shapes: Mapping[str, Shape]
    values: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "shapes"

    def __str__(self) -> str:
        told = [f"{name}[{', '.join(map(str, shape))}]" for name, shape in self.shapes.items()]
        told += [f"{name}={value!r}" for name, value in self.values.items()]
        return " ".join([*told, *(["not stated"] if self.kind == "unstated" else [])])

    def dims(self) -> dict[str, int]:
        """Sizes for symbols that a check would make large: the last two of four dims pass for those of a picture."""
        symbols = {size for shape in self.shapes.values() for size in shape if isinstance(size, str)}
        return {name: SIZES[name] for name in ("c", "d") if self.rank == 4 and name in symbols}


@dataclass(frozen=True, slots=True)
class _Subject:
    """What layouts are looked for: a pattern written one way at an opset, and what implements foreign ops."""

    pattern: Pattern
    variant: PatternVariant
    opset: int
    custom_ops: Sequence[str | Path]
    most_shapes: int
    known: Sequence[PatternArguments]
    sizes: Mapping[str, int] = field(default_factory=lambda: SIZES)


def layouts(
    pattern: Pattern,
    variant: PatternVariant,
    opset: int,
    ranks: Sequence[int] = RANKS,
    custom_ops: Sequence[str | Path] = (),
    most_shapes: int = MOST_SHAPES,
    known: Sequence[PatternArguments] = (),
) -> list[PatternArguments]:
    """What the pattern can be given: for each rank of its first tensor, every set of shapes that its ops take.

    Other tensors get that shape too, and those that broadcast with it or fit it as a vector or matrix does; then all
    free dims 1, and one of them 0.  custom_ops: libraries and Python files that implement ops.  most_shapes: sets of
    shapes of one rank; where it is 1, the search is short.  known: what suits another variant of the pattern, whose
    shapes are tried first.  Raises CannotInstantiate where the pattern cannot be written at the opset, whatever the
    shapes.
    """
    subject = _Subject(pattern, variant, opset, custom_ops=custom_ops, most_shapes=most_shapes, known=known)
    found: list[PatternArguments] = []
    for rank in ranks:
        of_rank = list(_of_rank(subject, rank))
        found += of_rank
        for layout in of_rank[:1]:
            found += _small(layout)
    return found


def _parameters(subject: _Subject, rank: int) -> tuple[Mapping[str, Var], Mapping[str, Sequence[Any]]]:
    """What a pattern captures: tensors, and for each number, list and string what it may be."""
    names = parameters_of(subject.pattern, subject.variant)
    tensors = {name: var for name, var in names.items() if var.kind not in ("scalar", "list")}
    captured = [name for name, var in names.items() if var.kind in ("scalar", "list")]
    candidates: dict[str, Sequence[Any]] = {}
    for place, name in enumerate(captured):
        found = _candidates(subject, names[name], rank, place)
        is_again = found[:1] == [[-1]] and found in candidates.values()
        candidates[name] = _other_axes(found) if is_again else found
    wanted = next(_fits(subject, list(tensors), rank), None) if candidates else None
    for name, value in wanted.values.items() if wanted is not None else ():
        candidates[name] = [value, *(other for other in candidates.get(name, ()) if other != value)]
    return tensors, candidates


def _other_axes(found: Sequence[Any]) -> list[Any]:
    """Lists of axes in another order than the first such parameter has them: those of one axis first."""
    single, several = ([axes for axes in found if (len(axes) == 1) is wanted] for wanted in (True, False))
    return [*single[1:], *single[:1], *several]


def _of_rank(subject: _Subject, rank: int) -> Iterator[PatternArguments]:
    tensors, candidates = _parameters(subject, rank)
    is_short = subject.most_shapes == 1
    for layout in _known(subject, tensors, candidates, rank) if is_short else ():
        model = _model(subject, layout.shapes, layout.values)
        if model is not None and is_runnable(model, subject.custom_ops):
            yield layout
            return
    shapes_found, tried, refused = 0, 0, 0
    for shapes in _shape_sets(subject, tensors, rank):
        kept, most = 0, 1 if shapes_found or is_short else MOST_VALUES
        for values, is_last in _value_sets(candidates):
            tried += 1
            if tried > (SEARCHED_SHORT if is_short else SEARCHED):
                return
            model = _model(subject, shapes, values)
            if model is not None and is_runnable(model, subject.custom_ops):
                yield PatternArguments(rank, shapes, values)
                kept += 1
            elif model is not None:
                refused += 1
                if refused == FRUITLESS and not (kept or shapes_found):
                    return
            if kept == most or (is_last and kept):
                break
        shapes_found += kept > 0
        if shapes_found == subject.most_shapes:
            return


def _known(
    subject: _Subject, tensors: Mapping[str, Var], candidates: Mapping[str, Sequence[Any]], rank: int
) -> Iterator[PatternArguments]:
    """What is known to suit other variants, for the parameters of this one, where it has nothing beyond."""
    for layout in subject.known:
        has_all = tensors.keys() <= layout.shapes.keys() and candidates.keys() <= layout.values.keys()
        if has_all and layout.rank == rank and layout.kind in ("shapes", "fixed"):
            shapes = {name: layout.shapes[name] for name in tensors}
            yield PatternArguments(rank, shapes, {name: layout.values[name] for name in candidates})


def _value_sets(candidates: Mapping[str, Sequence[Any]]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Values for all captured numbers: first each one's n-th together, then all combinations.

    Each comes with whether it ends the first kind: where one of those fits, combinations are not needed.
    """
    most = max(map(len, candidates.values()), default=1)
    for place in range(most):
        yield {name: found[place % len(found)] for name, found in candidates.items()}, place == most - 1
    for values in islice(product(*candidates.values()), SEARCHED // 4):
        yield dict(zip(candidates, values, strict=True)), False


def _model(subject: _Subject, shapes: Mapping[str, Shape], values: Mapping[str, Any]) -> onnx.ModelProto | None:
    """The pattern at fixed sizes; None where shape inference says that the ops do not take these shapes and values.

    Raises CannotInstantiate where no others will do either.
    """
    fixed = {name: tuple(subject.sizes.get(str(size), size) for size in shape) for name, shape in shapes.items()}
    try:
        return build_instance(
            subject.pattern, subject.variant, subject.opset, dtype=TensorProto.FLOAT, shapes=fixed, values=values
        )
    except CannotInstantiate as never:
        if never.is_final:
            raise
        return None


def every_layout(
    pattern: Pattern, variant: PatternVariant, opset: int, rank: int
) -> Iterator[tuple[PatternArguments, onnx.ModelProto]]:
    """All shapes of known sizes with all values that pass shape inference, in float32; what runs is not looked at.

    For a rule that fires at few of them; MOST_TRIED are looked at.  Raises CannotInstantiate where the pattern cannot
    be written at the opset.
    """
    of_sizes = [
        _Subject(pattern, variant, opset, custom_ops=(), most_shapes=MOST_SHAPES, known=(), sizes=sizes)
        for sizes in (SIZES, EVEN)
    ]
    tensors, candidates = _parameters(of_sizes[0], rank)
    both = zip(*(_shape_sets(subject, tensors, rank) for subject in of_sizes), strict=True)
    tried = 0
    for of_shapes in both:
        for values in (dict(zip(candidates, found, strict=True)) for found in product(*candidates.values())):
            tried += 1
            if tried > MOST_TRIED:
                return
            for subject, shapes in zip(of_sizes, of_shapes, strict=True):
                model = _model(subject, shapes, values)
                if model is not None:
                    yield _sized(PatternArguments(rank, shapes, values), subject.sizes, "fixed"), model


def is_runnable(model: onnx.ModelProto, custom_ops: Sequence[str | Path] = ()) -> bool:
    """Whether an instance runs here, or would if its ops were known: what is known to nobody cannot be ruled out."""
    if may_crash(model):  # quirks.UNCHECKED_BIAS_LENGTH
        return False
    try:
        with open_oracle(model, custom_ops) as oracle:
            oracle.run(generate_inputs(model, seed=0, dims={}))
    except SessionError as error:
        return error.is_unsupported
    except InputsUnknown:
        return False
    return True


def _shape_sets(subject: _Subject, tensors: Mapping[str, Var], rank: int) -> Iterator[dict[str, Shape]]:
    """Shapes for all tensors: what their ops usually take, one tensor at a time otherwise, then all alike."""
    full: Shape = tuple(list(SIZES)[:rank])
    if not tensors:
        yield from ({},) if rank == RANKS[0] else ()
        return
    palette = list(dict.fromkeys(_palette(full)))
    first, *others = tensors
    usual = [_usual_shape(subject, tensors[name], full) for name in others]
    changed = ((full, *usual[:place], shape, *usual[place + 1 :]) for shape in palette for place in range(len(others)))
    alike = ((full, *([shape] * len(others))) for shape in palette)
    turned = ((shape, *([other] * len(others))) for shape in palette if shape != full for other in palette)
    pairs = ((full, *shapes) for shapes in product(palette, repeat=2)) if len(others) == 2 else ()
    seen: set[Any] = set()
    of_rank = [layout.shapes for layout in subject.known if layout.rank == rank and layout.kind == "shapes"]
    for known in ({name: found[name] for name in tensors} for found in of_rank if tensors.keys() <= found.keys()):
        seen.add(tuple(known.values()))
        yield _settled(known, tensors, subject.sizes)
    fitting = (tuple(found.shapes[name] for name in tensors) for found in _fits(subject, list(tensors), rank) if others)
    for shapes in chain([(full, *usual)], fitting, changed, alike, turned if others else (), pairs):
        if shapes not in seen and max(map(len, shapes)) >= rank:
            seen.add(shapes)
            yield _settled(dict(zip(tensors, shapes, strict=True)), tensors, subject.sizes)


def _fits(subject: _Subject, names: Sequence[str], rank: int) -> Iterator[SolvedShapes]:
    """What the ops want of one another: for tensors of one rank, then all but the first of fewer axes."""
    for fewer in range(min(rank, MOST_FEWER) if len(names) > 1 else 1):
        ranks = {name: rank - fewer * (place > 0) for place, name in enumerate(names)}
        found = fit(subject.pattern, subject.variant, ranks, subject.sizes)
        if found is not None:
            yield found


def _usual_shape(subject: _Subject, var: Var, full: Shape) -> Shape:
    """The shape that the first op to read a tensor usually wants there, beside a first tensor of shape `full`."""
    found = operations_of(subject.pattern, subject.variant)
    for operation in found:
        for place, value in enumerate(operation.inputs):
            if value is var and len(full) > 1:
                usual = _beside(traits_of(qualified_name(operation.domain, operation.op)), place, full)
                if usual is not None:
                    return usual
    if var.kind == "constant" and len(full) > 2 and any(map(_convolves, found)):
        return (full[1], *(1 for _ in full[2:]))  # a number for each channel that it makes
    return full[-1:] if var.kind == "constant" else full


def _beside(op: OpTraits, place: int, full: Shape) -> Shape | None:
    """What an operand of an operator usually is beside a first tensor of shape `full`; None where nothing tells."""
    usual = (
        (op.operands.scalars, ()),
        (op.operands.channel_vectors, full[1:2]),
        (op.operands.last_axis_vectors, full[-1:]),
        (op.operands.square_matrices, (full[-1], full[-1])),
        (op.operands.conv_kernels, (full[1], full[1], *(1 for _ in full[2:]))),
    )
    return next((shape for slots, shape in usual if place in slots), None)


def _convolves(operation: NodePattern) -> bool:
    return bool(traits_of(qualified_name(operation.domain, operation.op)).operands.conv_kernels)


def _palette(full: Shape) -> Iterator[Shape]:
    """Shapes beside a full one: the same, those that broadcast with it, a vector, a matrix."""
    yield full
    if full:
        yield full[-1:]
        yield (1,) * len(full)
        yield (1, *full[1:])
        yield (*full[:-1], 1)
        yield full[-2:]
        yield ()
        yield (1,)
        yield (full[-1], full[-1])
        yield (full[-1], 6)
        yield (6, full[-1])
        yield full[1:2]
        yield (6, *full[1:2], *(1 for _ in full[2:]))
        yield (*full[:-2], full[-1], 6)
    if len(full) > 2:
        yield (*full[1:2], *(1 for _ in full[2:]))
        yield (1, *full[1:2], *(1 for _ in full[2:]))


def _settled(shapes: dict[str, Shape], tensors: Mapping[str, Var], known: Mapping[str, int]) -> dict[str, Shape]:
    """A constant has fixed sizes, and so has every dim that one of its symbols stands for."""
    fixed = {size for name, shape in shapes.items() if tensors[name].kind == "constant" for size in shape}
    sizes = {size: number for size, number in known.items() if size in fixed}
    return {name: tuple(sizes.get(str(size), size) for size in shape) for name, shape in shapes.items()}


def _small(layout: PatternArguments) -> Iterator[PatternArguments]:
    """The same with every free dim 1, and with the first free dim 0."""
    symbols = list(dict.fromkeys(size for shape in layout.shapes.values() for size in shape if isinstance(size, str)))
    if symbols:
        yield _sized(layout, dict.fromkeys(symbols, 1), "ones")
        yield _sized(layout, {**SIZES, symbols[0]: 0}, "empty")


def fixed(layout: PatternArguments) -> PatternArguments | None:
    """The same with every size known; None where none is free."""
    symbols = any(isinstance(size, str) for shape in layout.shapes.values() for size in shape)
    return _sized(layout, SIZES, "fixed") if symbols else None


def _sized(layout: PatternArguments, sizes: Mapping[str, int], kind: str) -> PatternArguments:
    shapes = {name: tuple(sizes.get(str(size), size) for size in shape) for name, shape in layout.shapes.items()}
    return PatternArguments(layout.rank, shapes, layout.values, kind)


def _candidates(subject: _Subject, var: Var, rank: int, number: int) -> Sequence[Any]:
    """What a captured number, list or string may be, from where the pattern uses it first.

    number: its place among the captured ones; floats rise with it, so that a lower bound stays below an upper one, and
    are exact in any dtype, so that a double loses nothing in an attribute.
    """
    for operation in operations_of(subject.pattern, subject.variant):
        known = schema(operation.domain, operation.op, subject.opset) or schema(operation.domain, operation.op, None)
        for name, item in operation.attributes.items():
            if item is var:
                spec = known.attributes.get(name) if known is not None else None
                found = attribute_values(spec) if spec is not None else [1]
                return _lists(name, rank, found) if var.kind == "list" else found
        for place, value in enumerate(operation.inputs):
            if value is var:
                formal = known.input_at(place) if known is not None else None
                allowed = known.allowed(formal) if known is not None and formal is not None else frozenset()
                integral = bool(allowed) and not any("float" in name for name in allowed)
                if var.kind == "list":
                    name = formal.name if formal is not None else ""
                    return _lists(name, rank, [[1], [-1], [0], [1] * rank] if integral else [[0.5], [0.5] * rank])
                op = traits_of(qualified_name(operation.domain, operation.op))
                low = [LOW] if op.control.selectors and place in op.data.copies_elements else []
                return [1, -1, 0, 2] if integral else [*low, 0.5 * 2**number, 0.125 + number, 2.0 ** (number - 16)]
    return [1]


def _lists(name: str, rank: int, found: Sequence[Any]) -> list[Any]:
    """Lists to try for a parameter: what one of its name means at this rank, then those given."""
    spatial = max(rank - 2, 0)
    special: dict[str, list[list[int]]] = {
        "perm": [
            [*range(rank - 2), rank - 1, rank - 2] if rank > 1 else [*range(rank)],
            [*reversed(range(rank))],
            [*range(1, rank), 0],
        ],
        "axes": [[-1], *([[*range(2, rank)]] if rank > 3 else [[-2, -1]] if rank > 1 else []), [0], [0, -1], [1]],
        "starts": [[1], [0], [-2]],
        "ends": [[3], [-1], [9]],
        "shape": [[0, -1], [-1], [-1, 1]],
        "pads": [[0] * 2 * spatial, [1] * 2 * spatial, [0] * 2 * rank, [1] * 2 * rank],
        "strides": [[1] * spatial, [2] * spatial],
        "dilations": [[1] * spatial, [2] * spatial],
        "kernel_shape": [[1] * spatial, [2] * spatial],
    }
    return [*special.get(name, []), *found]
