"""One region proved: narrow where that is possible, under ONNX Runtime or by an evaluator.

`SizeStrategies` makes dims smaller that nothing speaks of.  Where constants of integers do, both sides are written anew
with another number in its place, and of a longer constant the first numbers.  So are the columns of a weight that are
the columns of what the region hands on, also where they are as many as its rows.  What is proved so is run once more as
it is, unless that is too much: a dim may mean more than its size.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, count
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from surgeon.ops.traits.trait_lookup import guess_node_traits
from surgeon.ops.traversal import all_nodes, nodes_of
from surgeon.proof.cases.reduced_dims import REDUCED_SIZES
from surgeon.proof.cases.size_strategies import COSTLY_WORK, REDUCE_ABOVE_ELEMENTS, REDUCE_ABOVE_WORK, SizeStrategies
from surgeon.proof.check_result import Outcome
from surgeon.proof.node_cost import CostTerm
from surgeon.proof.proof_case import CaseInput, ProofCase, Reduction
from surgeon.proof.region.literals import MAX_UNREDUCED_DIM, dims_encoded_by, matches_literal
from surgeon.proof.site.proof_run import ProofRun
from surgeon.proof.site_proof import SiteProof
from surgeon.runtime.numerics.array_comparison import tolerances_in_force
from surgeon.runtime.quirks import IMPRECISE_BODIES
from surgeon.runtime.sessions.unknown_ops import unknown_ops_hint
from surgeon.shapes.algebra.size_expressions import Size
from surgeon.shapes.op_rules.size_constraints import SizeConstraint
from surgeon.shapes.tensor_types import INTEGERS_AND_BOOL

MOST_VALUES = 64  # elements of a constant up to which it may hold dims
LARGE_SUM = 64  # of smaller ones many are so by chance
MOST_PRODUCTS = 3  # dims that are products of others, of which each is made smaller in turn
MOST_WORK = 4e8  # multiplications, for each second of a proof, up to which what is proved narrow is run as it is
Renamed = Mapping[int, int]


def reduce_dims(experiment: ProofCase) -> Iterator[ProofCase]:
    """The same with smaller numbers in the place of large fixed dims: what is to be tried in turn.

    Nothing where little is computed, or no dim is large.
    """
    sizes = SizeStrategies(experiment, experiment.options.dims)
    usual = sizes.as_it_is() if _summed(experiment) else sizes.default()
    if usual is not None and usual.elements <= REDUCE_ABOVE_ELEMENTS and usual.work <= REDUCE_ABOVE_WORK:
        return
    apart = _with_columns_apart(experiment)
    renamed, products = _renamed(apart)
    if products and _work(_with(apart, _followed(apart, renamed))) > COSTLY_WORK:
        for size in sorted(products, reverse=True)[:MOST_PRODUCTS]:
            yield _with(apart, _followed(apart, {**renamed, size: products[size]}))
    if renamed:
        yield _with(apart, _followed(apart, renamed))
    if apart is not experiment:
        yield apart


def _work(experiment: ProofCase) -> int:
    """What the original nodes compute at the first sizes that are tried, in multiplications."""
    usual = SizeStrategies(experiment, experiment.options.dims).default()
    return 0 if usual is None else usual.work


def _with(experiment: ProofCase, renamed: Renamed) -> ProofCase:
    """The same with other numbers wherever a dim may be meant."""

    def name(size: Size) -> Size:
        return renamed.get(size, size) if isinstance(size, int) else size

    def numbers(those: Iterable[int]) -> frozenset[int]:
        return frozenset(renamed.get(number, number) for number in those)

    minis = experiment.models
    return replace(
        experiment,
        models=replace(
            minis,
            before=_model(minis.before, renamed),
            after=_model(minis.after, renamed),
            dims={text: name(size) for text, size in minis.dims.items()},
        ),
        inputs=tuple(_input(item, name) for item in experiment.inputs),
        literals=numbers(experiment.literals),
        value_literals=numbers(experiment.value_literals),
        position_literals=None if experiment.position_literals is None else numbers(experiment.position_literals),
        size_constraints=tuple(
            SizeConstraint(name(x.one), name(x.other), x.at_least, x.is_soft) for x in experiment.size_constraints
        ),
        reductions=tuple(Reduction(tuple(map(name, x.given)), tuple(map(name, x.made))) for x in experiment.reductions),
        costs=tuple(CostTerm(tuple(map(name, x.each)), tuple(map(name, x.others)), x.counts) for x in experiment.costs),
    )


def _with_columns_apart(experiment: ProofCase) -> ProofCase:
    """The same with few columns of a weight where these are the columns of an output, and nothing speaks of them.

    As of the projection behind an attention: its rows are all heads together, which stay.
    """
    columns = {name: axis for name, axis in _columns(experiment.models.before) if name in _wide(experiment)}
    if not columns:
        return experiment
    minis, dims = experiment.models, dict(experiment.models.dims)
    taken = {*experiment.literals, *(size for item in experiment.inputs for size in item.shape)}
    number = next(number for number in count(MAX_UNREDUCED_DIM + 1) if number not in taken)
    text = f"d{len(dims)}"
    before, after = ModelProto(), ModelProto()
    for made, side in ((before, minis.before), (after, minis.after)):
        made.CopyFrom(side)
        _untyped(made.graph)
        for port in made.graph.input:
            if port.name in columns:
                port.type.tensor_type.shape.dim[columns[port.name]].dim_param = text

    def narrow(shape: tuple[Size, ...], axis: int) -> tuple[Size, ...]:
        return tuple(number if at == axis else size for at, size in enumerate(shape))

    inputs = {item.name: item for item in experiment.inputs}
    weights = {inputs[name].shape: narrow(inputs[name].shape, axis) for name, axis in columns.items()}
    weights.update((shape[::-1], now[::-1]) for shape, now in list(weights.items()))
    made_of = {inputs[name].shape[1 - axis : 2 - axis] for name, axis in columns.items()}
    return replace(
        experiment,
        models=replace(minis, before=before, after=after, dims={**dims, text: number}),
        inputs=tuple(
            replace(item, shape=narrow(item.shape, columns[item.name])) if item.name in columns else item
            for item in experiment.inputs
        ),
        costs=tuple(
            replace(load, each=narrow(load.each, len(load.each) - 1))
            if load.others in made_of
            else replace(load, each=weights.get(load.each, load.each))
            for load in experiment.costs
        ),
    )


def _wide(experiment: ProofCase) -> dict[str, CaseInput]:
    """The weights that are made up and large both ways."""
    return {
        item.name: item
        for item in experiment.inputs
        if item.weight
        and len(item.shape) == 2
        and all(isinstance(size, int) and size > MAX_UNREDUCED_DIM for size in item.shape)
    }


def _columns(model: ModelProto) -> Iterator[tuple[str, int]]:
    """Inputs that nothing but one product reads, whose result is an output, and the axis that is its last there."""
    outputs = {port.name for port in model.graph.output}
    readers: dict[str, list[NodeProto]] = {}
    for node in all_nodes(model.graph.node):
        for name in node.input:
            readers.setdefault(name, []).append(node)
    for port in model.graph.input:
        name, axis = port.name, 1
        while len(found := readers.get(name, [])) == 1:
            node = found[0]
            known = guess_node_traits(node)
            is_last = known.products.factors is not None and list(node.input).index(name) == known.products.factors[1]
            if known.products.kind == "matmul" and is_last and not node.attribute and node.output[0] in outputs:
                if node.output[0] not in readers:
                    yield port.name, axis
                break
            if [list(item.ints) for item in node.attribute] != [[1, 0]] or not known.data.copies_elements:
                break
            name, axis = node.output[0], 1 - axis


def _renamed(experiment: ProofCase) -> tuple[dict[int, int], dict[int, int]]:
    """Smaller numbers by those whose place they take; and the same for dims that are products of other numbers.

    A dim stays that a float may stand for; of the sum of two dims, these are taken.  A product most often is one, as
    the width of all heads, and follows from its factors; rows times columns of a picture may be a dim like others.
    """
    models = (experiment.models.before, experiment.models.after)
    constants = [tensor for model in models for tensor in _tensors(model)]
    dims = _fixed_dims(experiment)
    floats = {number for tensor in constants if tensor.data_type not in INTEGERS_AND_BOOL for number in _floats(tensor)}
    given = (item for model in models for node in all_nodes(model.graph.node) for item in node.attribute)
    floats.update(
        number for item in given for number in dims_encoded_by(np.array([item.f] * item.HasField("f"), np.float32))
    )
    numbers = {abs(number) for number in (*dims, *experiment.value_literals)}
    factors = numbers - {0, 1}
    least = max(
        (number for number in numbers if number <= MAX_UNREDUCED_DIM), default=0
    )  # a Slice of 6 must not become all
    found: dict[int, int] = {}
    products: dict[int, int] = {}
    taken = set(numbers)
    summed = _summed(experiment)
    spoken = experiment.value_literals.union(
        *(tensor.dims for tensor in constants if tensor.data_type in INTEGERS_AND_BOOL)
    )
    parts = {part for size in dims & spoken for part in summed.get(size, (size,))}.union(*summed.values())
    multiples = {size for size in dims - experiment.literals if matches_literal(size, experiment.literals)}
    for size in sorted(parts | multiples):
        if size <= MAX_UNREDUCED_DIM or size in floats:
            continue
        smaller = (
            number
            for number in (*REDUCED_SIZES, *range(MAX_UNREDUCED_DIM + 1, size))
            if number > least and number not in taken
        )
        number = next(smaller, size)
        is_product = size in multiples or any(size % one == 0 and size // one in factors for one in factors)
        if number != size:
            (products if is_product else found)[size] = number
        taken.add(number)
    return found, products


def _fixed_dims(experiment: ProofCase) -> set[int]:
    """The dims of the inputs that are numbers."""
    return {size for item in experiment.inputs for size in item.shape if isinstance(size, int)}


def _summed(experiment: ProofCase) -> dict[int, tuple[int, int]]:
    """The large numbers of which a region speaks and that are the sum of two dims of its inputs, and these."""
    sums = {one + other: (one, other) for one, other in combinations(sorted(_fixed_dims(experiment)), 2)}
    return {size: sums[size] for size in sums.keys() & experiment.value_literals if size > LARGE_SUM}


def _followed(experiment: ProofCase, renamed: Renamed) -> dict[int, int]:
    """The same with numbers that follow from such a dim: products and sums with others, and the last of its places."""
    dims = _fixed_dims(experiment)
    numbers = dims | experiment.value_literals
    for model in (experiment.models.before, experiment.models.after):
        few = filter(_may_hold_dims, _tensors(model))
        numbers = numbers.union(*(numpy_helper.to_array(tensor).reshape(-1).tolist() for tensor in few))
    found = dict(renamed)
    for number in sorted(numbers - renamed.keys()):
        for one, now in sorted(renamed.items(), reverse=True):
            other, rest = divmod(number, one)
            if not rest and other > 1 and other in numbers:
                found[number] = now * found.get(other, other)
            elif number > one and number - one in dims:
                found[number] = now + found.get(number - one, number - one)
            elif number == one - 1:
                found[number] = now - 1
            else:
                continue
            break
    return found


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    """All constants of a mini-model."""
    yield from model.graph.initializer
    for node in (*all_nodes(model.graph.node), *(node for item in model.functions for node in item.node)):
        yield from (item.t for item in node.attribute if item.type == AttributeProto.TENSOR)


def _may_hold_dims(tensor: TensorProto) -> bool:
    """Whether a constant is of few integers."""
    return tensor.data_type in INTEGERS_AND_BOOL and bool(np.prod(tensor.dims) <= MOST_VALUES)


def _floats(tensor: TensorProto) -> Iterable[int]:
    """The dims that a number may stand for."""
    if tensor.data_type == TensorProto.STRING or np.prod(tensor.dims) != 1:
        return ()
    return dims_encoded_by(numpy_helper.to_array(tensor))


def _input(item: CaseInput, name: Callable[[Size], Size]) -> CaseInput:
    value = item.value
    if value is not None:
        flat = np.empty(value.size, object)
        flat[:] = [name(size) for size in value.reshape(-1)]
        value = flat.reshape(value.shape)
    return replace(item, shape=tuple(map(name, item.shape)), value=value)


def _model(model: ModelProto, renamed: Renamed) -> ModelProto:
    """The same with other numbers in constants of few integers and in attributes, and of larger constants the first."""
    made = ModelProto()
    made.CopyFrom(model)
    for tensor in _tensors(made):
        if any(size in renamed for size in tensor.dims) and tensor.data_type != TensorProto.STRING:
            array = numpy_helper.to_array(tensor)[tuple(slice(renamed.get(size)) for size in tensor.dims)]
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        if _may_hold_dims(tensor):
            array = numpy_helper.to_array(tensor)
            values = [renamed.get(number, number) for number in array.reshape(-1).tolist()]
            tensor.CopyFrom(numpy_helper.from_array(np.asarray(values, array.dtype).reshape(array.shape), tensor.name))
    for node in all_nodes(made.graph.node):
        for item in node.attribute:
            if item.type == AttributeProto.INT:
                item.i = renamed.get(item.i, item.i)
            elif item.type == AttributeProto.INTS:
                item.ints[:] = [renamed.get(number, number) for number in item.ints]
    _untyped(made.graph)
    return made


def _untyped(graph: GraphProto) -> None:
    """Without what is stated of inner tensors and of outputs, which may name a dim."""
    del graph.value_info[:]
    for port in graph.output:
        port.ClearField("type")


def prove_case(experiment: ProofCase, note: Callable[[Any], None] = lambda _: None) -> SiteProof:
    """Run both sides and judge.  What the models do never raises: every way of not running is an outcome.

    note: told which side is run next, and how many runs agreed before: what it takes in may be its last.
    """
    started = time.perf_counter()
    options = experiment.options
    proof, outcome, reason = _found(experiment, note)
    if outcome is Outcome.PROVED and not proof.independent:
        outcome, reason = Outcome.UNPROVED, _by_itself(experiment)
    if outcome is Outcome.PROVED and (unrun := _unlike_bodies(experiment)):
        reason = "; ".join(filter(None, (reason, unrun)))
    return SiteProof(
        outcome=outcome,
        reason=reason,
        oracle=proof.oracle,
        independent=proof.independent,
        reference=proof.against,
        errors=tuple(proof.ledger.worst.values()),
        runs=proof.runs,
        tolerance=tolerances_in_force(
            {error.dtype: None for error in proof.ledger.worst.values()}, options.rtol, options.atol
        ),
        seconds=time.perf_counter() - started,
        depends_on_weights=proof.is_of_weights,
        kinds=tuple(proof.kinds),
        sizes=tuple(dict.fromkeys(proof.sizes)),
    )


def _by_itself(experiment: ProofCase) -> str:
    """Why agreement says little where the rule's own pattern computed what the rule wrote, or took out."""
    minis, custom_ops = experiment.models, experiment.options.custom_ops
    help_ = next(filter(None, (unknown_ops_hint(model, custom_ops) for model in (minis.after, minis.before))), "")
    return f"nothing here computes what is written but the rule's own pattern, which proves no order of inputs{help_}"


def _unlike_bodies(experiment: ProofCase) -> str:
    """What of the replacement ONNX Runtime runs otherwise than it was run here, as a clause; empty for nothing."""
    # quirks.IMPRECISE_GROUP_NORM
    written = dict.fromkeys((node.domain, node.op_type) for node in nodes_of(experiment.models.after))
    coarse = [(op, IMPRECISE_BODIES[domain, op]) for domain, op in written if (domain, op) in IMPRECISE_BODIES]
    return "; ".join(f"{op} was not run as ONNX Runtime runs it, which has no kernel: {body}" for op, body in coarse)


def _found(experiment: ProofCase, note: Callable[[Any], None]) -> tuple[ProofRun, Outcome, str]:
    """Run a region narrow where its dims may be made small, and as it is once; else, or if that fails, as it is.

    What is too much as it is has the word of the narrow run.  Where that differs, a dim may mean more than its size: it
    is unproved.
    """
    failed: tuple[ProofRun, Outcome, str] | None = None
    for narrow in reduce_dims(experiment):
        attempt, outcome, reason = _run(narrow, lambda told: note({**told, "at": None}))  # the sizes of another
        if outcome is Outcome.UNPROVED:
            continue
        if _is_much_as_it_is(experiment):
            told = "; ".join(filter(None, (reason, _made_smaller(experiment, narrow))))
            if outcome is Outcome.PROVED:
                return attempt, outcome, told
            if experiment.weights:
                return attempt, outcome, reason  # it is run again with the weights that are there
            failed = failed or (attempt, Outcome.UNPROVED, told)
        elif outcome is Outcome.PROVED:
            once = ProofRun(experiment, note, once=True)
            if once.outcome()[0] is Outcome.PROVED:
                attempt.merge(once)
                return attempt, outcome, reason
    return failed or _run(experiment, note)


def _is_much_as_it_is(experiment: ProofCase) -> bool:
    """Whether one run with all fixed dims as they are takes too long, or its inputs are too large to make."""
    usual = SizeStrategies(experiment, experiment.options.dims).as_it_is()
    return usual is None or usual.work > MOST_WORK * experiment.options.proof_time


def _made_smaller(experiment: ProofCase, narrow: ProofCase) -> str:
    """Which dims were smaller in a narrow run that is the last word, in words."""
    usual = SizeStrategies(narrow, narrow.options.dims).default()
    pairs = zip(experiment.inputs, narrow.inputs, strict=True)
    dims = {(one, other) for was, now in pairs for one, other in zip(was.shape, now.shape, strict=True)}
    sizes = {one: other if usual is None else usual.size(other) for one, other in dims if isinstance(one, int)}
    told = ", ".join(f"{one:,} as {now}" for one, now in sorted(sizes.items()) if one != now)
    return f"run at smaller sizes alone, {told}, as its own take too long (--proof-time)"


def _run(experiment: ProofCase, note: Callable[[Any], None]) -> tuple[ProofRun, Outcome, str]:
    """Run an experiment under ONNX Runtime, or where its kernels take less than the ops allow by an evaluator.

    What fails where they run has failed.
    """
    proof = ProofRun(experiment, note)
    outcome, reason = proof.outcome()
    if proof.is_refused and outcome is not Outcome.FAILED:
        other = ProofRun(experiment, note, is_evaluated=True)
        found = other.outcome()
        if found[0] is not Outcome.UNPROVED:
            return other, *found
    return proof, outcome, reason
