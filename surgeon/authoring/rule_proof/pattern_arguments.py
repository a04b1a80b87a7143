"""Finds shapes and values for the captures of a pattern that its ops accept."""

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

RANKS = (3, 2, 1, 0, 4)  # the most usual rank first
SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 6, "f": 7}  # sizes of the symbols
EVEN = {"a": 2, "b": 8, "c": 4, "d": 6, "e": 10, "f": 12}  # sizes of the symbols for ops with groups
SEARCHED, SEARCHED_SHORT = 240, 80  # shapes and values tried for one rank
MAX_TRIED = 1500  # the same, if a rule declines all usual ones
FRUITLESS = 40  # runs of one rank that may fail before the search ends
MAX_SHAPES = 10  # sets of shapes of one rank
MAX_RANK_DIFFERENCE = 3  # limit of the difference between the ranks of tensors
LOW = -3e38  # a mask sentinel, near the lowest float32
MAX_VALUES = 5  # sets of captured values for the first shapes of a rank; other shapes get one


@dataclass(frozen=True, slots=True)
class PatternArguments:
    """Shapes and values for the captures of a pattern."""

    rank: int
    """The rank of the first tensor."""
    shapes: Mapping[str, Shape]
    """The shapes of captured tensors by name; a string is a symbol."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """The values of captured numbers, lists and strings by name."""
    kind: str = "shapes"
    """"shapes" (symbolic), "fixed" (static), "ones" (dynamic dims of 1), "empty" (a dim of 0) or "unstated" (none)."""

    def __str__(self) -> str:
        parts = [f"{name}[{', '.join(map(str, shape))}]" for name, shape in self.shapes.items()]
        parts += [f"{name}={value!r}" for name, value in self.values.items()]
        return " ".join([*parts, *(["not stated"] if self.kind == "unstated" else [])])

    def dims(self) -> dict[str, int]:
        """Sizes for symbols that a check would make large: it takes the last two of four dims for those of an image."""
        symbols = {size for shape in self.shapes.values() for size in shape if isinstance(size, str)}
        return {name: SIZES[name] for name in ("c", "d") if self.rank == 4 and name in symbols}


@dataclass(frozen=True, slots=True)
class _Subject:
    """A search for shapes and values of one pattern variant at one opset."""

    pattern: Pattern
    """The pattern."""
    variant: PatternVariant
    """Its variant."""
    opset: int
    """The version of ai.onnx."""
    custom_ops: Sequence[str | Path]
    """Libraries and Python files that implement ops."""
    most_shapes: int
    """The maximum number of sets of shapes for one rank."""
    known: Sequence[PatternArguments]
    """Arguments that fit other variants, which are tried first."""
    sizes: Mapping[str, int] = field(default_factory=lambda: SIZES)
    """The sizes of the symbols."""


def argument_sets(
    pattern: Pattern,
    variant: PatternVariant,
    opset: int,
    ranks: Sequence[int] = RANKS,
    custom_ops: Sequence[str | Path] = (),
    most_shapes: int = MAX_SHAPES,
    known: Sequence[PatternArguments] = (),
) -> list[PatternArguments]:
    """The shapes and values that the ops of a pattern accept, for each rank of its first tensor.

    Other tensors get the same shape, shapes that broadcast with it, vectors and matrices.  Then all dynamic dims are 1,
    and one of them is 0.  custom_ops: libraries and Python files that implement ops.  most_shapes: sets of shapes of
    one rank; with 1 the search is short.  known: arguments for other variants of the pattern, which are tried first.
    Raises CannotInstantiate if the pattern has no instance at the opset for any shapes.
    """
    subject = _Subject(pattern, variant, opset, custom_ops=custom_ops, most_shapes=most_shapes, known=known)
    found: list[PatternArguments] = []
    for rank in ranks:
        of_rank = list(_of_rank(subject, rank))
        found += of_rank
        for arguments in of_rank[:1]:
            found += _small(arguments)
    return found


def _parameters(subject: _Subject, rank: int) -> tuple[Mapping[str, Var], Mapping[str, Sequence[Any]]]:
    """The captures of a pattern: the tensors, and candidate values for each number, list and string."""
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
    """Lists of axes in another order than for the first such capture: single axes first."""
    single, several = ([axes for axes in found if (len(axes) == 1) is wanted] for wanted in (True, False))
    return [*single[1:], *single[:1], *several]


def _of_rank(subject: _Subject, rank: int) -> Iterator[PatternArguments]:
    tensors, candidates = _parameters(subject, rank)
    is_short = subject.most_shapes == 1
    for arguments in _known(subject, tensors, candidates, rank) if is_short else ():
        model = _model(subject, arguments.shapes, arguments.values)
        if model is not None and is_runnable(model, subject.custom_ops):
            yield arguments
            return
    shapes_found, tried, refused = 0, 0, 0
    for shapes in _shape_sets(subject, tensors, rank):
        kept, most = 0, 1 if shapes_found or is_short else MAX_VALUES
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
    """Arguments of other variants that cover all captures of this one."""
    for arguments in subject.known:
        has_all = tensors.keys() <= arguments.shapes.keys() and candidates.keys() <= arguments.values.keys()
        if has_all and arguments.rank == rank and arguments.kind in ("shapes", "fixed"):
            shapes = {name: arguments.shapes[name] for name in tensors}
            yield PatternArguments(rank, shapes, {name: arguments.values[name] for name in candidates})


def _value_sets(candidates: Mapping[str, Sequence[Any]]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Values for all captures: first the n-th candidate of each, then all combinations.

    The flag marks the last set before the combinations, which are needed only if no earlier set fits.
    """
    most = max(map(len, candidates.values()), default=1)
    for place in range(most):
        yield {name: found[place % len(found)] for name, found in candidates.items()}, place == most - 1
    for values in islice(product(*candidates.values()), SEARCHED // 4):
        yield dict(zip(candidates, values, strict=True)), False


def _model(subject: _Subject, shapes: Mapping[str, Shape], values: Mapping[str, Any]) -> onnx.ModelProto | None:
    """The pattern at static sizes; None if shape inference refuses these shapes and values.

    Raises CannotInstantiate if it would refuse all others.
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


def all_arguments(
    pattern: Pattern, variant: PatternVariant, opset: int, rank: int
) -> Iterator[tuple[PatternArguments, onnx.ModelProto]]:
    """Static shapes and values that pass shape inference, in float32, without a run; at most MAX_TRIED are tried.

    For a rule that fires at few of them.  Raises CannotInstantiate if the pattern has no instance at the opset.
    """
    of_sizes = [
        _Subject(pattern, variant, opset, custom_ops=(), most_shapes=MAX_SHAPES, known=(), sizes=sizes)
        for sizes in (SIZES, EVEN)
    ]
    tensors, candidates = _parameters(of_sizes[0], rank)
    both = zip(*(_shape_sets(subject, tensors, rank) for subject in of_sizes), strict=True)
    tried = 0
    for of_shapes in both:
        for values in (dict(zip(candidates, found, strict=True)) for found in product(*candidates.values())):
            tried += 1
            if tried > MAX_TRIED:
                return
            for subject, shapes in zip(of_sizes, of_shapes, strict=True):
                model = _model(subject, shapes, values)
                if model is not None:
                    yield _sized(PatternArguments(rank, shapes, values), subject.sizes, "fixed"), model


def is_runnable(model: onnx.ModelProto, custom_ops: Sequence[str | Path] = ()) -> bool:
    """Whether an instance runs here; True for ops that no installed runtime implements."""
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
    """Shapes for all tensors: the usual ones of their ops, then one tensor changed at a time, then all equal."""
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
    of_rank = [arguments.shapes for arguments in subject.known if arguments.rank == rank and arguments.kind == "shapes"]
    for known in ({name: found[name] for name in tensors} for found in of_rank if tensors.keys() <= found.keys()):
        seen.add(tuple(known.values()))
        yield _settled(known, tensors, subject.sizes)
    fitting = (tuple(found.shapes[name] for name in tensors) for found in _fits(subject, list(tensors), rank) if others)
    searches = [(full, *usual)], fitting, changed, alike, turned if others else (), pairs
    for shapes in chain.from_iterable(searches):
        if shapes not in seen and max(map(len, shapes)) >= rank:
            seen.add(shapes)
            yield _settled(dict(zip(tensors, shapes, strict=True)), tensors, subject.sizes)


def _fits(subject: _Subject, names: Sequence[str], rank: int) -> Iterator[SolvedShapes]:
    """Solutions of the size constraints: for tensors of one rank, then with fewer axes for all but the first."""
    for fewer in range(min(rank, MAX_RANK_DIFFERENCE) if len(names) > 1 else 1):
        ranks = {name: rank - fewer * (place > 0) for place, name in enumerate(names)}
        found = fit(subject.pattern, subject.variant, ranks, subject.sizes)
        if found is not None:
            yield found


def _usual_shape(subject: _Subject, var: Var, full: Shape) -> Shape:
    """The usual shape of a tensor for its first consumer, next to a first tensor of shape `full`."""
    found = operations_of(subject.pattern, subject.variant)
    for operation in found:
        for place, value in enumerate(operation.inputs):
            if value is var and len(full) > 1:
                usual = _beside(traits_of(qualified_name(operation.domain, operation.op)), place, full)
                if usual is not None:
                    return usual
    if var.kind == "constant" and len(full) > 2 and any(map(_convolves, found)):
        return (full[1], *(1 for _ in full[2:]))  # a number for each output channel
    return full[-1:] if var.kind == "constant" else full


def _beside(op: OpTraits, place: int, full: Shape) -> Shape | None:
    """The usual shape of an operand next to a first tensor of shape `full`; None if it is unknown."""
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
    """Candidate shapes next to a full one: the same, broadcasting shapes, vectors and matrices."""
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
    """Replace the symbols in shapes of constants by numbers, in all shapes."""
    fixed = {size for name, shape in shapes.items() if tensors[name].kind == "constant" for size in shape}
    sizes = {size: number for size, number in known.items() if size in fixed}
    return {name: tuple(sizes.get(str(size), size) for size in shape) for name, shape in shapes.items()}


def _small(arguments: PatternArguments) -> Iterator[PatternArguments]:
    """The same with every dynamic dim 1, and with the first dynamic dim 0."""
    sizes = [size for shape in arguments.shapes.values() for size in shape]
    symbols = list(dict.fromkeys(size for size in sizes if isinstance(size, str)))
    if symbols:
        yield _sized(arguments, dict.fromkeys(symbols, 1), "ones")
        yield _sized(arguments, {**SIZES, symbols[0]: 0}, "empty")


def fixed(arguments: PatternArguments) -> PatternArguments | None:
    """The same with static sizes; None if they are static already."""
    symbols = any(isinstance(size, str) for shape in arguments.shapes.values() for size in shape)
    return _sized(arguments, SIZES, "fixed") if symbols else None


def _sized(arguments: PatternArguments, sizes: Mapping[str, int], kind: str) -> PatternArguments:
    shapes = {name: tuple(sizes.get(str(size), size) for size in shape) for name, shape in arguments.shapes.items()}
    return PatternArguments(arguments.rank, shapes, arguments.values, kind)


def _candidates(subject: _Subject, var: Var, rank: int, number: int) -> Sequence[Any]:
    """Candidate values of a captured number, list or string, by its first use in the pattern.

    number: its position among these captures.  Floats rise with it, so that a lower bound stays below an upper one, and
    are exact in every dtype.
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
    """Candidate lists for a parameter: those for its name at this rank, then the given ones."""
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
