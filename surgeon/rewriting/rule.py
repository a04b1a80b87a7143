"""A rule: an operation, the patterns it is recognised by, and the form that each target wants.

    @rule(patterns=[exact])
    def gelu(g: Graph, x: Tensor) -> Tensor:
        "Fuse the exact GELU into one node."
        return g.ms_gelu(x)

    @gelu.on("onnx", opset=20)
    def _(g: Graph, x: Tensor) -> Tensor:
        return g.gelu(x)

Every form is itself a pattern, so the same rule moves a model from any form to any other.
"""

import inspect
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surgeon.errors import RuleError, SurgeonError
from surgeon.matching.compile import Compiled, compile_pattern
from surgeon.matching.pattern import trace

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a model is to run.  writes: the kinds of form it takes, best first.  runs: kinds it leaves as they are."""

    name: str
    writes: tuple[str, ...]
    runs: tuple[str, ...]


DECOMPOSED = "decomposed"
TARGETS = {
    target.name: target
    for target in (
        Target("ort", ("ort", "onnx"), ("ort", "onnx")),  # its own ops; standard ones, which it runs too, stay
        Target("onnx", ("onnx",), ("onnx",)),
        Target("contrib", ("ort",), ("ort",)),  # ONNX Runtime's own ops, also in place of standard ones
        Target(DECOMPOSED, (DECOMPOSED,), (DECOMPOSED,)),
    )
}
KINDS = ("ort", "onnx", DECOMPOSED)


@dataclass(frozen=True, slots=True)
class Form:
    """How one kind of target writes an operation.  opset: the version of ai.onnx from which it can."""

    kind: str
    function: Function
    opset: int = 1
    is_pattern: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """What a rule does for a target at an opset: the patterns to look for and the form to write.

    needs: the opset that the form wants where the model's is below it, else None.
    """

    sources: tuple[Compiled, ...]
    form: Form
    needs: int | None


@dataclass(eq=False)
class Rule:
    """One operation.  Made by the `rule` decorator."""

    name: str
    patterns: tuple[Function, ...]
    forms: list[Form]
    conditions: tuple[Function, ...]
    approximate: float
    doc: str
    module: str
    where: str
    _compiled: dict[Function, tuple[Compiled, ...]] = field(default_factory=dict, repr=False)

    def on(self, kind: str, *, opset: int = 1, is_pattern: bool = True) -> Callable[[Function], Function]:
        """Add the form of another kind ("ort", "onnx"); several of one kind may differ by opset.

        is_pattern=False: the function only writes (it looks at shapes or values, say), so it is no pattern.
        """
        if kind not in KINDS:
            raise RuleError(f"Rule {self.name} names a form {kind!r}; the kinds are {', '.join(KINDS)}.")

        def add(function: Function) -> Function:
            self.forms.append(Form(kind, function, opset, is_pattern))
            return function

        return add

    def plan(self, target: str, opset: int | None) -> Plan | str:
        """What to do for a target; a sentence where the rule has nothing for it."""
        wanted = TARGETS[target]
        usable = [form for kind in wanted.writes for form in self._all_forms() if form.kind == kind]
        if not usable:
            return f"rule {self.name} has no form for target {target}"
        fitting = [form for form in usable if form.opset <= (opset or 1)]
        form = _best(fitting, wanted.writes) if fitting else min(usable, key=lambda item: item.opset)
        functions = [] if DECOMPOSED in wanted.runs else list(self.patterns)
        functions += [
            other.function
            for other in self.forms
            if other.is_pattern and other.kind not in wanted.runs and other.function is not form.function
        ]
        sources = tuple(compiled for function in functions for compiled in self.compiled(function))
        return Plan(sources, form, None if fitting else form.opset)

    def compiled(self, function: Function) -> tuple[Compiled, ...]:
        """A pattern function, traced and compiled once."""
        if function not in self._compiled:
            try:
                self._compiled[function] = tuple(compile_pattern(pattern) for pattern in trace(function))
            except SurgeonError:
                raise
            except Exception as error:
                raise RuleError(f"{broken(self, error)} while its pattern was traced; mend the rule.") from error
        return self._compiled[function]

    def _all_forms(self) -> list[Form]:
        return [*self.forms, Form(DECOMPOSED, self.patterns[0])]

    def __repr__(self) -> str:
        return f"<rule {self.name} ({self.where})>"


def broken(rule: "Rule", error: Exception) -> str:
    """What a rule's own code raised, and where: its last line in the rule's file, else the very last."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).name == rule.where.partition(":")[0]]
    at = (own or frames)[-1]
    return f"Rule {rule.name} broke ({Path(at.filename).name}:{at.lineno}, {type(error).__name__}: {error})"


def _best(forms: Sequence[Form], kinds: Sequence[str]) -> Form:
    return min(forms, key=lambda form: (kinds.index(form.kind), -form.opset))


def rule(
    *,
    patterns: Sequence[Function],
    conditions: Sequence[Function] = (),
    target: str = "ort",
    opset: int = 1,
    name: str | None = None,
    approximate: float = 0.0,
    is_pattern: bool = True,
) -> Callable[[Function], Rule]:
    """Make a rule of the decorated replacement.

    patterns: functions that build what to look for; the first is the operation's reference.  conditions: functions of
    captured tensors (by name, or of the whole `match`) that call `require`.  target: the kind of form that the
    decorated function writes.  opset: the version of ai.onnx from which it can.

    approximate: how far the rule may change outputs on purpose: by so much, and by so much of their largest magnitude
    (0: rounding only).  Such a rule runs only where it is named itself or approximate rules are asked for.

    Raises RuleError when there is no pattern, the kind is unknown, or `approximate` is no such part.
    """

    def decorate(function: Function) -> Rule:
        code = function.__code__
        where = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
        title = name or function.__name__
        if not patterns:
            raise RuleError(f"Rule {title} ({where}) has no pattern; list at least one in patterns=[...].")
        if isinstance(approximate, bool) or not 0 <= approximate < 1:
            raise RuleError(
                f"Rule {title} ({where}) says approximate={approximate}; give the part of the output's largest "
                "magnitude by which it may differ, such as 1e-3."
            )
        made = Rule(
            title,
            tuple(patterns),
            [],
            tuple(conditions),
            approximate,
            inspect.getdoc(function) or "",
            function.__module__,
            where,
        )
        made.on(target, opset=opset, is_pattern=is_pattern)(function)
        return made

    return decorate
