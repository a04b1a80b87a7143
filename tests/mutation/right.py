"""Rewrites that are right: by algebra, by ONNX's own bodies of its functions, and from form to form of a word."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import onnx
import onnxruntime

import surgeon
from surgeon import Rule
from surgeon.errors import SurgeonError
from surgeon.runtime.quirks import FINITE_HIDDEN_SCORES, LOWEST_FILL_HIDES, Quirk
from tests.mutation import algebra, formulas, formulas_of_shapes
from tests.mutation.building import initializers, model_of, rule_of, signed, written
from tests.mutation.words import all_words, forms, rule_of_form

OPSETS = (18, 21)
TABLES = (formulas, formulas_of_shapes)
"""What fills the table of `algebra`."""
RANDOM = frozenset(("Bernoulli",))
WORSE = frozenset(
    ("LayerNormalization", "GroupNormalization", "MeanVarianceNormalization", "ReduceLogSumExp", "Softplus")
)
"""Ops whose bodies lose digits, by E[x²] − E[x]², or overflow, by exp: they are not written in the place of the op."""
OTHERWISE = frozenset(("Clip", "DynamicQuantizeLinear", "MeanVarianceNormalization"))
"""Ops whose kernel in ONNX Runtime is not what the body says: for infinity without a limit, for zeros alone."""
OVERFLOWING = ("Attention", "FlexAttention", "LinearAttention", "CausalConvWithState")
SPREADS = "what overflows, or is no number, may spread to other numbers of its row"
ABSORBED = "a finite fill absorbs the scores of a row hidden whole where the body adds in float16, not in the kernel"
REFUSED = "positions that count from the end of a table are refused, which the body's Gather takes"
DIFFERS = {op: {"extreme": SPREADS, "non_finite": SPREADS} for op in OVERFLOWING}
DIFFERS["Attention"]["hidden_rows"] = ABSORBED
DIFFERS["RotaryEmbedding"] = {"backwards": REFUSED}
"""What rules of such ops say of themselves, as the built-in ones do."""
WORSE_FORMS = {"softplus_of": "Log", "relu_of": "Clip", "negative_part": "Clip", "length_over": "Sqrt"}
"""Forms of words, by an op, that overflow, end at the largest number, or make zero of tiny ones (a root of squares in
float16) where the others do not: none is written."""
SQUARING = ("Pow", "Mul", "ReduceSumSquare", "ReduceL2")


KERNEL_DIFFERS = "the kernel differs"
RECURSION_LIMIT = 20_000
"""Frames of Python for matching: a body of Attention has paths of more nodes than the usual 1,000 frames follow."""


@dataclass(frozen=True)
class KernelDifference:
    """Where ONNX Runtime's kernel of Attention does not do what the body does, so that a proof is right to fail."""

    reason: str
    """What the kernel does, and why that is no fault of the proof."""
    message: str
    """A regular expression that the proof's failure matches, so that no other failure is taken for this one."""
    concerns: Callable[[onnx.NodeProto], bool]
    """Whether it may show at a node."""
    quirk: Quirk | None = None
    """The fault, None where the kernel only checks what has no meaning."""

    def explains(self, node: onnx.NodeProto, failure: str) -> bool:
        """Whether a failed proof of a node by its body is right, with the installed version."""
        return (
            node.op_type == "Attention"
            and self.concerns(node)
            and re.search(self.message, failure) is not None
            and (self.quirk is None or self.quirk.affects(onnxruntime.__version__))
        )


def _setting(node: onnx.NodeProto, name: str) -> int:
    return next((item.i for item in node.attribute if item.name == name), 0)


def _takes(node: onnx.NodeProto, slot: int) -> bool:
    return len(node.input) > slot and bool(node.input[slot])


KERNEL_DIFFERENCES = (
    KernelDifference(
        LOWEST_FILL_HIDES.fault,
        r"attn_mask\[.* instead of .*\(by masks, ",
        lambda node: bool(_setting(node, "is_causal")) and _takes(node, 3),
        LOWEST_FILL_HIDES,
    ),
    KernelDifference(
        FINITE_HIDDEN_SCORES.fault,
        r"qk_matmul_output\[\S.* instead of -inf",
        lambda node: bool(_setting(node, "is_causal")) and len(node.output) > 3,
        FINITE_HIDDEN_SCORES,
    ),
    KernelDifference(
        "the kernel refuses a number of keys below 0 or beyond the keys that there are, which has no meaning",
        r"fails on inputs that the original accepts: .*ComputeOutputShapeForAttention.*by integers of every length",
        lambda node: _takes(node, 6),
    ),
)
"""Tried by hand against onnx.reference, which agrees with the body in each."""


@dataclass(frozen=True)
class Right:
    """One rewrite."""

    source: str
    """Where it comes from."""
    name: str
    """What it does."""
    make: Callable[[], tuple[onnx.ModelProto, Rule]]
    """Builds its model and rule, which may take a while."""
    written: Sequence[onnx.NodeProto] = ()
    """Nodes of ops with a body that the rule writes in place of the body."""


def outcome(one: Right) -> tuple[str, str]:
    """What the proof says: "proved", "unproved" or "failed"; "not written" where the rewrite is none, with why.

    KERNEL_DIFFERS for a failure that a known difference of a kernel explains.
    """
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(RECURSION_LIMIT)
    try:
        model, rule = one.make()
        _, report = surgeon.rewrite(model, rule, target="onnx", check="sites", keep_going=True)
    except SurgeonError as error:
        return "not written", f"{type(error).__name__}: {error}"
    finally:
        sys.setrecursionlimit(limit)
    sites = [*report.sites, *report.rolled_back]
    if not sites:
        return "not written", report.misses[0].reason if report.misses else "nothing matched"
    found, reason = sites[0].outcome, sites[0].reason
    for known in KERNEL_DIFFERENCES if found == "failed" else ():
        if any(known.explains(node, reason) for node in one.written):
            return KERNEL_DIFFERS, known.reason
    return found, reason


def rights(*, bodies: bool = True) -> Iterator[Right]:
    """All of them.  bodies: those of ONNX's functions too, whose cases onnx takes seconds to collect."""
    yield from by_algebra()
    yield from by_words()
    if bodies:
        yield from by_bodies()


def by_algebra() -> Iterator[Right]:
    """Each pair of formulas in each dtype and shape."""
    for at, pair in enumerate(algebra.pairs()):
        for dtype in pair.dtypes:
            for turn, shape in enumerate(pair.shapes):
                opset = OPSETS[(at + turn) % len(OPSETS)]
                name = f"{pair.name}: {dtype}{list(shape)}, opset {opset}"
                yield Right("algebra", name, partial(_of_pair, pair, dtype, shape, opset))


def _of_pair(pair: algebra.Pair, dtype: str, shape: Any, opset: int) -> tuple[onnx.ModelProto, Rule]:
    names = list(_names(pair.left))
    kinds = {"x": dtype, "b": "bool", "i": "int64"}
    inputs = {
        name: (kinds[kind], ("k",) if kind == "i" else shape) for name, kind in zip(names, pair.takes, strict=True)
    }
    model = model_of(pair.left, inputs, pair.gives or dtype, opset)
    return model, rule_of(
        signed(_named(pair.left), names), signed(_named(pair.right), list(_names(pair.right))), "right"
    )


def _names(function: Any) -> tuple[str, ...]:
    code = function.__code__
    return tuple(code.co_varnames[1 : code.co_argcount - len(function.__defaults__ or ())])


def _named(function: Any) -> Any:
    return lambda g, **captures: function(g, **captures)


def by_words(step: int = 1) -> Iterator[Right]:
    """From each form of a word to each other.  step: of words one is taken out of so many."""
    for word in list(all_words())[::step]:
        for dtype in algebra.FLOATS:
            made = forms(word, dtype)
            for one, before in enumerate(made):
                for other, after in enumerate(made):
                    ops = {node.op_type for node in after.graph.node}
                    if one != other and WORSE_FORMS.get(word) not in ops and not loses_digits(before, after):
                        name = f"{word}: {dtype}, form {one} to form {other}"
                        yield Right("words", name, partial(_of_forms, word, before, after))


def loses_digits(before: onnx.ModelProto, after: onnx.ModelProto) -> bool:
    """Whether the second form is right for real numbers alone, and the first one keeps digits that it loses.

    A variance by E[x²] − E[x]² cancels where the mean is far from zero, one by deviations does not; the other way
    round digits are won.  A cast to fewer bits loses what only the wider dtype holds.
    """
    return any(loses(after) and not loses(before) for loses in (_is_one_pass, _narrows))


def _is_one_pass(model: onnx.ModelProto) -> bool:
    """Whether means of squares of the input itself are what another is taken from."""
    given = {value.name for value in model.graph.input}
    ops = [node.op_type for node in model.graph.node]
    squares = [node for node in model.graph.node if node.op_type in SQUARING and given.intersection(node.input)]
    return bool(squares) and "Sub" in ops and ops.count("ReduceMean") + ops.count("ReduceSum") > 1


def _narrows(model: onnx.ModelProto) -> bool:
    """Whether the input is cast to a dtype of fewer bits."""
    widths = {value.name: _width(value.type.tensor_type.elem_type) for value in model.graph.input}
    casts = [node for node in model.graph.node if node.op_type == "Cast" and node.input[0] in widths]
    return any(_width(node.attribute[0].i) < widths[node.input[0]] for node in casts)


def _width(dtype: int) -> int:
    return int(onnx.helper.tensor_dtype_to_np_dtype(dtype).itemsize)


def _of_forms(word: str, before: onnx.ModelProto, after: onnx.ModelProto) -> tuple[onnx.ModelProto, Rule]:
    return before, rule_of_form(word, after)


def by_bodies() -> Iterator[Right]:
    """ONNX's test cases of ops that have a body: the op by its body, as onnx writes it out, and the body by the op."""
    from tests.onnx_cases import onnx_cases

    cases = {case.name: case for case in onnx_cases()}
    for name, case in cases.items():
        plain = cases.get(name.partition("_expanded")[0])
        if "_expanded" not in name or plain is None or len(plain.model.graph.node) != 1:
            continue
        op, title = plain.model.graph.node[0].op_type, name.removeprefix("test_")
        if any(
            item.HasField("g") for node in (*plain.model.graph.node, *case.model.graph.node) for item in node.attribute
        ):
            continue  # graphs in attributes read tensors around them, which a replacement names otherwise
        if op not in RANDOM | OTHERWISE:
            make = partial(_of_case, plain.model, case.model, True)
            yield Right("bodies", f"{title}, by the op", make, plain.model.graph.node)
        if op not in RANDOM | WORSE | OTHERWISE:
            yield Right("bodies", f"{title}, by its body", partial(_of_case, plain.model, case.model, False))


def _of_case(plain: onnx.ModelProto, body: onnx.ModelProto, to_op: bool) -> tuple[onnx.ModelProto, Rule]:
    node = plain.graph.node[0]
    inputs, outputs = [name for name in node.input if name], [name for name in node.output if name]
    one = written(plain.graph.node, {}, inputs, outputs)
    other = written(body.graph.node, initializers(body.graph), inputs, outputs)
    differs = DIFFERS.get(node.op_type, {})
    if to_op:
        return body, rule_of(other, one, "right", differs)
    return plain, rule_of(one, other, "right", differs)
