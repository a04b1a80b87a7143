"""Writes terms as the source text of a pattern function."""

import builtins
import json
import keyword
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surgeon.authoring.learning.terms import (
    Fixed,
    HelperCall,
    OpCall,
    OpOutput,
    PatternParameter,
    Term,
    Wildcard,
    children,
    identity,
    walk,
)
from surgeon.errors import UsageError
from surgeon.file.tensors.decoding import Array
from surgeon.ir.scope import qualified_name
from surgeon.ops.builder.graph import ASSOCIATIVE, Constant, Graph, Tensor
from surgeon.ops.schemas import VARIADIC, Schema, attributes_become_inputs, schema
from surgeon.ops.schemas.helper_names import RESULT_NOUNS, helper_name, snake_case
from surgeon.ops.traits.trait_lookup import traits_of

LINE = 100  # columns of an expression, after which its longest part becomes a local variable
WIDTH = 116  # columns of a line in the body of a function
_PART = re.compile(r"""(["'])(?:\\.|(?!\1).)*\1|.""", re.DOTALL)  # a quoted string is one part
NOUNS = {
    **RESULT_NOUNS,
    "mean_last": "mean",
    "mean_over": "mean",
    "sum_over": "total",
    "maximum_over": "highest",
    "rsqrt": "inverse_root",
    "over_root": "normal",
}
NAMED: dict[str, float] = {
    "2**0.5": 2**0.5,
    "2**-0.5": 2**-0.5,
    "(2 / math.pi) ** 0.5": (2 / math.pi) ** 0.5,
    "(2 * math.pi) ** 0.5": (2 * math.pi) ** 0.5,
    "(2 * math.pi) ** -0.5": (2 * math.pi) ** -0.5,
    "math.pi": math.pi,
    "math.pi / 2": math.pi / 2,
    "2 * math.pi": 2 * math.pi,
    "math.e": math.e,
    "math.log(2)": math.log(2),
    "1 / math.log(2)": 1 / math.log(2),
    "math.log(10)": math.log(10),
    "3**0.5": 3**0.5,
    "3**-0.5": 3**-0.5,
}


def numeral(number: Any) -> str:
    """Short Python source for a Python, NumPy or ml_dtypes number."""
    if isinstance(number, (bool, np.bool_)):
        return str(bool(number))
    if isinstance(number, (int, np.integer)):
        return str(int(number))
    value = float(number)
    if not math.isfinite(value):
        return "math.nan" if math.isnan(value) else f"{'-' if value < 0 else ''}math.inf"
    dtype = np.asarray(number).dtype
    eps = 1e-12 if dtype == np.float64 else _eps(dtype)
    shortest = repr(value) if dtype == np.float64 else str(number)
    if len(shortest.lstrip("-").replace(".", "").strip("0")) > 3:
        for text, exact in NAMED.items():
            if abs(abs(value) - exact) <= eps * exact:
                sign = "-" if value < 0 else ""
                return f"{sign}({text})" if sign and not text.startswith("(") else f"{sign}{text}"
    return repr(float(shortest))


def _eps(dtype: np.dtype[Any]) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)


def listed(array: Array | list[Any]) -> str:
    """Python source for a list of numbers, nested like the array."""
    if isinstance(array, np.ndarray) and array.ndim == 0:
        return numeral(array[()])
    if not isinstance(array, (list, np.ndarray)):
        return numeral(array)
    return f"[{', '.join(listed(item) for item in array)}]"


@dataclass(frozen=True)
class GeneratedPattern:
    """A pattern function as text."""

    parameters: tuple[tuple[str, str], ...]
    """The name and annotation of each parameter."""
    lines: tuple[str, ...]
    """The body; the return statement is the last line."""
    inputs: tuple[tuple[str, int], ...]
    """The parameters for graph inputs, each with the index of the input."""
    outputs: int
    """The number of tensors that it returns."""
    ops: tuple[str, ...]
    """The ops and helpers that it calls, each once."""

    def function(self, lines: Iterable[str], *more: str) -> Callable[..., Any]:
        """The pattern function with these lines as its body and `more` annotated parameters at the end."""
        space: dict[str, Any] = {"Constant": Constant, "Graph": Graph, "Tensor": Tensor, "math": math}
        given = ", ".join(["g: Graph", *(f"{name}: {kind}" for name, kind in self.parameters), *more])
        exec("\n".join([f"def pattern({given}):", *(f"    {line}" for line in lines)]), space)
        function: Callable[..., Any] = space["pattern"]
        return function


def rank(kind: str) -> int:
    """Sort key of parameters: tensors first, then weights, then numbers."""
    return ("Tensor", "Constant").index(kind) if kind in ("Tensor", "Constant") else 2


def write(roots: Sequence[Term]) -> GeneratedPattern:
    """The pattern function that builds these terms."""
    return _PatternWriter(roots).write()


class _PatternWriter:
    def __init__(self, roots: Sequence[Term]) -> None:
        self.roots = roots
        self.uses = Counter(identity(item) for term in walk(roots) for item in children(term))
        self.uses.update(identity(root) for root in roots)
        self.lines: list[str] = []
        self.taken: set[str] = {"g", "math", "np"}
        self.parameters = self._parameters()
        self.locals: dict[tuple[int, int], str] = {}

    def _parameters(self) -> dict[int, tuple[str, str]]:
        """The name and annotation of each parameter by id: tensors first, then weights, then numbers."""
        parameters = [term for term in walk(self.roots) if isinstance(term, PatternParameter)]
        by_right = sorted(parameters, key=lambda item: (item.place < 0, item.place, not item.is_named))
        names = {id(parameter): self._unique(identifier(parameter.name)) for parameter in by_right}
        ordered = sorted(parameters, key=lambda item: (rank(item.kind), item.place))
        return {id(parameter): (names[id(parameter)], parameter.kind) for parameter in ordered}

    def write(self) -> GeneratedPattern:
        returned = ", ".join(self._returned())
        parameters = [term for term in walk(self.roots) if isinstance(term, PatternParameter) and term.place >= 0]
        inputs = tuple((self.parameters[id(parameter)][0], parameter.place) for parameter in parameters)
        repeated_stems = [_stem(item) for item in walk(self.roots) if isinstance(item, (OpOutput, HelperCall))]
        body = tuple(line for text in (*self.lines, f"return {returned}") for line in wrapped(text))
        stems = tuple(dict.fromkeys(repeated_stems))
        return GeneratedPattern(tuple(self.parameters.values()), body, inputs, outputs=len(self.roots), ops=stems)

    def _returned(self) -> list[str]:
        texts = [self.text(root) for root in self.roots]
        if len(texts) < 2 or sum(map(len, texts)) < LINE:
            return texts
        return [
            self._local(root, _place(root), text) if _weight(text) else text
            for root, text in zip(self.roots, texts, strict=True)
        ]

    def text(self, term: Term | None) -> str:
        """The expression of a term; a term with several uses becomes a local variable first."""
        if term is None:
            return "None"
        if isinstance(term, PatternParameter):
            return self.parameters[id(term)][0]
        if isinstance(term, Fixed):
            return _constant(term)
        if isinstance(term, Wildcard):
            return "g.any_tensor()"
        place = _place(term)
        if place in self.locals:
            return self.locals[place]
        written = self._op_call(term.call) if isinstance(term, OpOutput) else self._helper_call(term)
        if isinstance(term, OpOutput) and term.call.outputs > 1:
            return self._unpacked(term, written)
        if self.uses[identity(term)] > 1:
            return self._local(term, place, written)
        return written

    def _local(self, term: Term, place: tuple[int, int], written: str) -> str:
        stem = _stem(term)
        name = self._unique(NOUNS.get(stem) or identifier(snake_case(stem)))
        self.lines.append(f"{name} = {written}")
        self.locals[place] = name
        return name

    def _unpacked(self, term: OpOutput, written: str) -> str:
        """Assign all outputs of a call on one line; return the name of this one."""
        stem = NOUNS.get(term.call.op) or identifier(snake_case(term.call.op))
        names = [self._unique(stem) for _ in range(term.call.outputs)]
        self.lines.append(f"{', '.join(names)} = {written}")
        for position, name in enumerate(names):
            self.locals[identity(term), position] = name
        return names[term.position]

    def _helper_call(self, helper: HelperCall) -> str:
        parts = [(item, "") for item in helper.arguments]
        return self._call_text(f"g.{helper.name}", parts)

    def _op_call(self, call: OpCall) -> str:
        known = schema(call.domain, call.op, None)
        attributes = [(value, name) for name, value in call.attributes.items()]
        if count := traits_of(qualified_name(call.domain, call.op)).shape.output_count_attribute:
            return self._split(call, [item for item in attributes if item[1] != count])
        if known is None:
            named = f"{call.domain}::{call.op}" if call.domain else call.op
            for name in call.attributes:
                if not name.isidentifier() or keyword.iskeyword(name) or name == "outputs":
                    raise UsageError(f"{named} has an attribute {name!r}, which a pattern cannot contain. Rename it.")
            several = [(call.outputs, "outputs")] if call.outputs > 1 else []
            return self._call_text("g.op", [(item, "") for item in call.inputs] + attributes + several, _plain(named))
        inputs = self._inputs(call, known)
        if call.outputs > 1:
            usual = known.min_outputs if known.max_outputs < VARIADIC else 0
            attributes += [(call.outputs, "outputs")] if call.outputs != usual else []
        return self._call_text(f"g.{helper_name(call.domain, call.op)}", inputs + attributes)

    def _split(self, call: OpCall, attributes: list[tuple[Any, str]]) -> str:
        """A call of Split: `outputs` replaces `num_outputs` and is omitted if sizes are given."""
        sizes = call.inputs[1] if len(call.inputs) > 1 else None
        parts: list[tuple[Any, str]] = [(call.inputs[0], ""), *([(sizes, "split")] if sizes is not None else [])]
        has_sizes = isinstance(sizes, Fixed) or any(
            name == "split" and isinstance(item, list) for item, name in attributes
        )
        return self._call_text("g.split", [*parts, *attributes, *([] if has_sizes else [(call.outputs, "outputs")])])

    def _inputs(self, call: OpCall, known: Schema) -> list[tuple[Any, str]]:
        """Inputs with their keyword; "" for positional ones."""
        if call.op in ASSOCIATIVE and not call.domain:
            return [(item, "") for item in self._operands(call)]
        by_keyword = {place: name for name, place in attributes_become_inputs(call.domain, call.op).items()}
        found: list[tuple[Any, str]] = []
        is_named = False
        for place, item in enumerate(call.inputs):
            formal = known.input_at(place)
            if formal is None or formal.variadic:
                found.append((item, ""))
                continue
            is_named = (
                is_named
                or item is None
                or (place in by_keyword and not isinstance(item, (OpOutput, HelperCall, Wildcard)))
            )
            if item is not None:
                found.append((item, (by_keyword.get(place) or snake_case(formal.name)) if is_named else ""))
        return found

    def _operands(self, call: OpCall) -> list[Term | None]:
        """The operands of a sum or product, including those of nested ones without other consumers."""
        found: list[Term | None] = []
        for item in call.inputs:
            inner = item.call if isinstance(item, OpOutput) else None
            if inner is not None and (inner.domain, inner.op) == ("", call.op) and self.uses[id(inner)] == 1:
                found += self._operands(inner)
            else:
                found.append(item)
        return found

    def _call_text(self, function: str, parts: Sequence[tuple[Any, str]], *before: str) -> str:
        texts = [self.text(item) if isinstance(item, Term) or item is None else _plain(item) for item, _ in parts]
        while sum(map(len, texts)) + 2 * len(texts) + len(function) > LINE:
            place = max(range(len(texts)), key=lambda number: _weight(texts[number]))
            if not _weight(texts[place]):
                break
            item = parts[place][0]
            texts[place] = self._local(item, _place(item), texts[place])
        keyed = [f"{key}={text}" if key else text for text, (_, key) in zip(texts, parts, strict=True)]
        return f"{function}({', '.join([*before, *keyed])})"

    def _unique(self, name: str) -> str:
        found, number = name, 1
        while found in self.taken:
            number += 1
            found = f"{name}_{number}"
        self.taken.add(found)
        return found


def _stem(term: Term) -> str:
    """The op or helper of a term."""
    if isinstance(term, OpOutput):
        return term.call.op
    return term.name if isinstance(term, HelperCall) else "part"


def _place(term: Term) -> tuple[int, int]:
    return identity(term), term.position if isinstance(term, OpOutput) else 0


def wrapped(line: str) -> list[str]:
    """The line, or several if it is too long: its arguments on one line, or one per line."""
    head, _, arguments = line.partition("(")
    is_call = arguments.endswith(")") and " g." in f" {head}"
    is_tuple = line.startswith("return") and len(_split(line)) > 1
    if len(line) <= WIDTH or not is_call or is_tuple:
        return [line]
    if len(arguments) <= WIDTH - 3:
        return [f"{head}(", f"    {arguments[:-1]}", ")"]
    return [f"{head}(", *(f"    {item}," for item in _split(arguments[:-1])), ")"]


def _split(arguments: str) -> list[str]:
    """Splits arguments at their commas."""
    found, depth, start = [], 0, 0
    for part in _PART.finditer(arguments):
        depth += (part[0] in "([") - (part[0] in ")]")
        if part[0] == "," and not depth:
            found.append(arguments[start : part.start()].strip())
            start = part.end()
    return [*found, arguments[start:].strip()]


def _weight(text: str) -> int:
    """The columns that a local variable for an expression saves."""
    return len(text) if text.startswith("g.") and text != "g.any_tensor()" else 0


def identifier(name: str) -> str:
    """A valid Python identifier that shadows no builtin."""
    text = "".join(sign if sign.isalnum() and sign.isascii() else "_" for sign in name).strip("_") or "x"
    text = f"_{text}" if text[0].isdigit() else text
    return f"{text}_" if keyword.iskeyword(text) or hasattr(builtins, text) else text


def _constant(term: Fixed) -> str:
    if term.array.dtype.kind in "OSU":
        raise UsageError("The operation contains a constant of strings, which a pattern cannot match. Leave it out.")
    return numeral(term.array.reshape(-1)[0]) if _is_scalar(term) else listed(term.array)


def _is_scalar(term: Fixed) -> bool:
    return term.array.size == 1 and (term.array.ndim == 0 or term.array.dtype.kind not in "iu")


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, float):
        return numeral(np.float32(value))  # attributes are float32
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, (bool, int)):
        return numeral(value)
    raise UsageError(f"A pattern cannot match an attribute of type {type(value).__name__}. Leave that node out.")
