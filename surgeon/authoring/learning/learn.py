"""Learns an operation from examples: its forms as pattern functions, and as the text of a rule file."""

import linecache
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from surgeon.authoring.learning.codegen import GeneratedPattern, identifier, rank, wrapped, write
from surgeon.authoring.learning.generalise import generalise
from surgeon.authoring.learning.terms import (
    Example,
    Fixed,
    HelperCall,
    OpOutput,
    PatternParameter,
    Term,
    children,
    identity,
    rebuilt,
    walk,
)
from surgeon.errors import UsageError
from surgeon.ops.schemas.helper_names import snake_case
from surgeon.rules.matching.compiler import CompiledPattern, compile_pattern
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.match_state import MatchState
from surgeon.rules.matching.matcher import match_at
from surgeon.rules.rule import Rule
from surgeon.rules.tracing.tracer import trace

Function = Callable[..., Any]
PLAIN = frozenset(
    """
    Add Cast Concat Div Expand Gather Gemm Greater MatMul Mul Neg Reshape Shape Slice Split Squeeze Sub Transpose
    Unsqueeze Where
    """.split()  # noqa: SIM905 - a list literal would take a line per name
)  # ops that do not identify a form
WIDTH = 120
_OVER_AXES = {"ReduceMean": "mean_over", "ReduceSum": "sum_over", "ReduceMax": "maximum_over"}


def with_helpers(roots: Sequence[Term]) -> tuple[Term, ...]:
    """The terms with composite helpers in place of the calls that they expand to, if those have no other consumer."""
    found = tuple(roots)
    for shorten in (_squares, _over_axes, _roots, _over_roots, _centred):
        uses = Counter(identity(item) for term in walk(found) for item in children(term))
        uses.update(identity(root) for root in found)
        once = {key for key, count in uses.items() if count == 1}
        found = _changed(found, shorten, once)
    return found


def _changed(roots: tuple[Term, ...], shorten: Callable[[Term, set[int]], Term], once: set[int]) -> tuple[Term, ...]:
    """The terms with one kind of helper introduced.  once: identities of terms with a single use."""
    kept: set[int] = set()
    made: list[Term] = []  # keeps the ids in `kept` from being given again

    def change(old: Term, term: Term) -> Term:
        new = shorten(term, kept)
        made.append(new)
        if identity(old) in once:
            kept.add(identity(new))
        return new

    return rebuilt(roots, change)


def _op_inputs(term: Any, op: str, inputs: int) -> tuple[Term, ...] | None:
    """The inputs of an ai.onnx op without attributes; None for another term."""
    if not isinstance(term, OpOutput) or (term.call.domain, term.call.op) != ("", op) or term.call.attributes:
        return None
    found = [item for item in term.call.inputs if item is not None]
    return tuple(found) if len(found) == len(term.call.inputs) == inputs else None


def _is_number(term: Any, number: float) -> bool:
    return isinstance(term, Fixed) and term.array.size == 1 and float(term.array.reshape(-1)[0]) == number


def _squares(term: Term, _: set[int]) -> Term:
    """x² and 1/√x as a power or a product."""
    power, product = _op_inputs(term, "Pow", 2), _op_inputs(term, "Mul", 2)
    if power is not None and _is_number(power[1], 2):
        return HelperCall("square", power[:1])
    if power is not None and _is_number(power[1], -0.5):
        return HelperCall("rsqrt", power[:1])
    if product is not None and product[0] is product[1]:
        return HelperCall("square", product[:1])
    return term


def _over_axes(term: Term, _: set[int]) -> Term:
    """Means, sums and maxima over axes with keepdims."""
    if not isinstance(term, OpOutput) or term.call.domain or term.call.op not in _OVER_AXES:
        return term
    call = term.call
    axes = call.attributes.get("axes", call.inputs[1] if len(call.inputs) > 1 else None)
    if axes is None or set(call.attributes) - {"axes"} or not isinstance(axes, (list, Fixed, PatternParameter)):
        return term
    if isinstance(axes, Fixed):
        axes = axes.array.reshape(-1).tolist()
    helper = _OVER_AXES[call.op]
    if axes == [-1] and helper == "mean_over":
        return HelperCall("mean_last", call.inputs[:1])
    return HelperCall(helper, (call.inputs[0], axes))


def _roots(term: Term, once: set[int]) -> Term:
    """1/√x."""
    quotient, inverse = _op_inputs(term, "Div", 2), _op_inputs(term, "Reciprocal", 1)
    below_ = inverse[0] if inverse is not None else None
    if quotient is not None and _is_number(quotient[0], 1):
        below_ = quotient[1]
    root = _op_inputs(below_, "Sqrt", 1) if below_ is not None and identity(below_) in once else None
    return HelperCall("rsqrt", root) if root is not None else term


def _over_roots(term: Term, once: set[int]) -> Term:
    """x/√v, divided by a root or multiplied by the reciprocal of one."""
    quotient, product = _op_inputs(term, "Div", 2), _op_inputs(term, "Mul", 2)
    if quotient is not None and identity(quotient[1]) in once:
        root = _op_inputs(quotient[1], "Sqrt", 1)
        if root is not None:
            return HelperCall("over_root", (quotient[0], root[0]))
    for place, factor in enumerate(product or ()):
        if (
            isinstance(factor, HelperCall)
            and factor.name == "rsqrt"
            and identity(factor) in once
            and product is not None
        ):
            return HelperCall("over_root", (product[1 - place], factor.arguments[0]))
    return term


def _centred(term: Term, once: set[int]) -> Term:
    """x minus its mean."""
    difference = _op_inputs(term, "Sub", 2)
    if difference is None or not isinstance(difference[1], HelperCall) or identity(difference[1]) not in once:
        return term
    mean = difference[1]
    if mean.name not in ("mean_last", "mean_over") or mean.arguments[0] is not difference[0]:
        return term
    return HelperCall("centred", (difference[0], [-1] if mean.name == "mean_last" else mean.arguments[1]))


@dataclass(eq=False)
class LearnedForm:
    """One form of the operation."""

    source: GeneratedPattern
    """The pattern function as text."""
    compiled: tuple[CompiledPattern, ...]
    """The compiled patterns of the function."""
    examples: list[Example]
    """The exports with this form."""
    labels: list[str]
    """The exporters of the examples, such as "dynamo 18"."""
    name: str = ""
    """The name of the pattern function."""
    known_rules_notes: list[str] = field(default_factory=list)
    """Comments on existing rules that match this form."""

    def fits(self, example: Example) -> bool:
        """Whether the form covers this model from its inputs to its outputs."""
        index = example.index
        state = MatchState(index, index.main)
        outputs = [state.canonical(name) for name in example.outputs]
        root = state.producers.get(outputs[0])
        inputs = [
            (name, example.graph_inputs[place])
            for name, place in self.source.inputs
            if place < len(example.graph_inputs)
        ]

        def is_whole(match: Match) -> bool:
            bound = match.bound
            return list(match.outputs) == outputs and all(
                isinstance(bound[name], str) and state.canonical(bound[name]) == given for name, given in inputs
            )

        if root is None or len(inputs) < len(self.source.inputs):
            return False
        try:
            return any(match_at(index, compiled, root, is_whole) is not None for compiled in self.compiled)
        except RecursionError:
            raise _too_large(example) from None


@dataclass(eq=False)
class LearnedOperation:
    """A learned operation."""

    title: str
    """The name of the operation."""
    forms: list[LearnedForm]
    """The forms of the operation, each once."""
    about: list[str] = field(default_factory=list)
    """Sentences about the examples in the docstring of the rule file."""
    failures: dict[str, list[str]] = field(default_factory=dict)
    """The exporters that failed, by the reason."""

    def add_failure(self, label: str, why: str) -> None:
        """Record that an exporter failed."""
        self.failures.setdefault(why if why.endswith(".") else f"{why}.", []).append(label)

    @property
    def functions(self) -> list[Function]:
        """A pattern function for each form, as `rule(patterns=...)` takes them."""
        space = run(self.patterns_text())
        return [space[form.name] for form in self.forms]

    @property
    def rule(self) -> Rule:
        """The skeleton rule."""
        return rule_of(self.text(), self.name)

    @property
    def name(self) -> str:
        """The name of the rule."""
        return identifier(snake_case(self.title.replace("ReLU", "Relu")))

    def patterns_text(self) -> str:
        """The imports and the pattern functions."""
        functions = "\n\n\n".join(_function(form) for form in self.forms)
        return f"{self._imports(functions, [])}\n\n\n{functions}\n"

    def text(self) -> str:
        """The rule file: docstring, imports, pattern functions, and a rule that writes one node."""
        functions = "\n\n\n".join(_function(form) for form in self.forms)
        skeleton = self._skeleton()
        imports = self._imports(f"{functions}\n{skeleton}", ["rule"])
        notes = [f"Not learned from {short_labels(labels)}: {why}" for why, labels in self.failures.items()]
        about = "".join(f"\n{line}" for text in [*self.about, *notes] for line in textwrap.wrap(text, WIDTH - 2))
        title = f"{_prose(self.title)}, learned by example."
        docstring = f'"""{title}\n{_prose(about)}\n"""' if about else f'"""{title}"""'
        return f"{docstring}\n\n{imports}\n\n\n{functions}\n\n\n{skeleton}\n"

    def _imports(self, code: str, names: list[str]) -> str:
        used = [name for name in ("Constant", "Graph", "Tensor") if re.search(rf"\b{name}\b", code)]
        line = f"from surgeon import {', '.join([*used, *names])}"
        return f"import math\n\n{line}" if "math." in code else line

    def _skeleton(self) -> str:
        """A rule that writes one node of a custom domain with all captures of the forms."""
        every = [dict(form.source.parameters) for form in self.forms]
        kinds = {name: kind for parameters in reversed(every) for name, kind in parameters.items()}
        common = [name for name in kinds if all(name in parameters for parameters in every)]
        names = sorted(kinds, key=lambda name: (name not in common, rank(kinds[name])))
        parameters = [
            f"{name}: {kinds[name]}" if name in common else f"{name}: {kinds[name]} | None = None" for name in names
        ]
        tensors = [name for name in names if rank(kinds[name]) < 2]
        numbers = [f"{name}={name}" for name in names if rank(kinds[name]) == 2]
        outputs = self.forms[0].source.outputs
        count = [f"outputs={outputs}"] if outputs > 1 else []
        head = _signature(self.name, parameters, outputs)
        given = ", ".join([f'"my.domain::{_op_name(self.title)}"', *tensors, *count, *numbers])
        listed = ", ".join(form.name for form in self.forms)
        written = "\n".join(f"    {line}" for line in wrapped(f"return g.op({given})"))
        return (
            f"@rule(patterns=[{listed}])\n{head}\n"
            f'    """Fuse {_prose(self.title)} into one node.\n\n'
            "    What: give the formula here.\n"
            "    Numerics: give the largest difference; if nothing else differs, write: rounding only.\n"
            f'    """\n    # Write the replacement here.\n{written}'
        )


def learn(groups: Sequence[Sequence[Example]], title: str) -> LearnedOperation:
    """Learn from groups of examples.  Each group has one form, which becomes one pattern.

    A form that an earlier pattern matches is merged with it.  Raises UsageError if a group differs in structure, or if
    no pattern can express it.
    """
    lesson = LearnedOperation(title, [])
    for group in groups:
        add(lesson, group)
    name_forms(lesson)
    return lesson


def add(lesson: LearnedOperation, group: Sequence[Example]) -> None:
    """Learn from one more group of examples.  Call `name_forms` afterwards."""
    if add_known(lesson, *group):
        return
    try:
        lesson.forms.append(_form(group))
    except RecursionError:
        raise _too_large(group[0]) from None


def _form(group: Sequence[Example]) -> LearnedForm:
    """The form of a group, with composite helpers if the result still matches all examples."""
    roots = generalise(group)
    for terms in (with_helpers(roots), roots):
        written = write(terms)
        form = LearnedForm(written, _compiled(written), list(group), [group[0].label])
        if all(form.fits(example) for example in group):
            return form
    raise UsageError(
        f"The pattern learned from {group[0].label} does not match it, for example because two sums share an operand. "
        "Learn a part of it."
    )


def _too_large(example: Example) -> UsageError:
    count, label = len(example.index.main.nodes), example.label
    subject = label if "." in label else f"{label[:1].upper()}{label[1:]}"  # file names keep their case
    return UsageError(f"{subject} has {count} nodes, too many for one pattern. Learn a part of it.")


def add_known(lesson: LearnedOperation, *group: Example) -> bool:
    """Add the examples to the first form that matches all of them; whether there is one."""
    for form in lesson.forms:
        if all(form.fits(example) for example in group):
            form.labels.append(group[0].label)
            form.examples.extend(group)
            return True
    return False


def name_forms(lesson: LearnedOperation) -> None:
    """Name each form after an op that only it has: gelu_by_erf, gelu_node.  Forms of one node come last."""
    lesson.forms.sort(key=lambda form: len(form.source.ops) == 1)  # the first pattern defines a rule
    taken: set[str] = {lesson.name}
    for form in lesson.forms:
        ops = [op for op in form.source.ops if op not in PLAIN]
        others = {op for other in lesson.forms if other is not form for op in other.source.ops}
        own = next((op for op in ops if op not in others), "") or (ops[0] if ops and len(lesson.forms) == 1 else "")
        if len(form.source.ops) == 1:
            stem = f"{lesson.name}_node"
        elif own:
            stem = identifier(f"{lesson.name}_by_{snake_case(own)}")
        else:
            stem = f"{lesson.name}_form"
        name, number = stem, 1
        while name in taken:
            number += 1
            name = f"{stem}_{number}"
        form.name = name
        taken.add(name)


def run(text: str) -> dict[str, Any]:
    """Execute a rule file and return its names; reports and tracebacks can show its lines."""
    name = f"<learned {abs(hash(text)):x}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "learned"}
    exec(compile(text, name, "exec"), space)
    return space


def rule_of(text: str, name: str) -> Rule:
    """The rule of a rule file.  Raises UsageError if the name is bound to something else."""
    found = run(text)[name]
    if not isinstance(found, Rule):
        raise UsageError(f"The rule file needs the name {name!r} for something else. Give the operation another name.")
    return found


def _compiled(written: GeneratedPattern) -> tuple[CompiledPattern, ...]:
    return tuple(compile_pattern(pattern) for pattern in trace(written.function(written.lines)))


def _function(form: LearnedForm) -> str:
    written = form.source
    head = _signature(form.name, [f"{name}: {kind}" for name, kind in written.parameters], written.outputs)
    lines = [head, *_docstring(f"As {_prose(short_labels(form.labels))} write{'s' * (len(form.labels) == 1)} it.")]
    lines += [f"    # {remark}" for remark in form.known_rules_notes]
    return "\n".join([*lines, *(f"    {line}" for line in written.lines)])


def _docstring(text: str) -> list[str]:
    """The lines of a docstring."""
    first, *rest = textwrap.wrap(text, WIDTH - 10)
    return [f'    """{first}', *(f"    {line}" for line in rest), '    """'] if rest else [f'    """{first}"""']


def _signature(name: str, parameters: Sequence[str], outputs: int) -> str:
    returned = "Tensor" if outputs == 1 else "tuple[Tensor, ...]"
    line = f"def {name}({', '.join(['g: Graph', *parameters])}) -> {returned}:"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"def {name}(", *(f"    {item}," for item in ["g: Graph", *parameters]), f") -> {returned}:"])


def short_labels(labels: Sequence[str]) -> str:
    """Labels with versions as ranges: "dynamo 18", "dynamo 19", "torchscript 14" are "dynamo 18-19, torchscript 14"."""
    versions: dict[str, list[int]] = {}
    for label in labels:
        stem, _, version = label.rpartition(" ")
        if stem and version.isdecimal():
            versions.setdefault(stem, []).append(int(version))
        else:
            versions.setdefault(label, [])
    return ", ".join(f"{stem} {_ranges(found)}" if found else stem for stem, found in versions.items())


def _ranges(numbers: Sequence[int]) -> str:
    ordered = enumerate(sorted(set(numbers)))
    runs = [[number for _, number in found] for _, found in groupby(ordered, lambda item: item[1] - item[0])]
    return ", ".join(f"{found[0]}-{found[-1]}" if len(found) > 1 else str(found[0]) for found in runs)


def _prose(text: str) -> str:
    """Text that cannot end a docstring."""
    return text.replace("\\", "/").replace('"', "'")


def _op_name(title: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.findall(r"[A-Za-z0-9]+", title))
