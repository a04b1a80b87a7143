"""Variants: the model that rules write with a decision for each of their choices, proved before it is measured."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from surgeon.file.model_like import is_in_memory
from surgeon.file.save import OutputModel
from surgeon.file.temporary_model import temporary_folder, temporary_path
from surgeon.pipeline.checks import Checks, Progress, Saving
from surgeon.pipeline.driver import run
from surgeon.pipeline.reports.rewrite_report import RewriteReport
from surgeon.pipeline.rewriting.rule_set import RuleSet
from surgeon.rules.catalogue import unique_rules
from surgeon.rules.choices import Decision, RuleChoices, choices_among
from surgeon.rules.functions.function_definition import LocalFunction
from surgeon.rules.rule import Rule
from surgeon.runtime.sessions.ep_library import short_name
from surgeon.runtime.timing.loaded_graphs import LoadedModel, graph_key


@dataclass(frozen=True, eq=False)
class FormVariant:
    """A model that was written and proved."""

    decision: Decision
    """Form of each choice."""
    rule_set: RuleSet
    """Rules for the decision, with the report of the run that wrote the model."""
    model: OutputModel
    """The model, or its temporary file."""
    key: str
    """Digest of the graph that ONNX Runtime runs."""

    @property
    def nodes(self) -> int:
        """Nodes of the model, without Constants."""
        return self.rule_set.report.nodes_after

    @cached_property
    def fired(self) -> frozenset[str]:
        """Names of the rules whose sites are in the model."""
        return frozenset(name for name, count in self.rule_set.report.counts.items() if count)


@dataclass(frozen=True, eq=False)
class FormVariants:
    """Writes variants of one model for a rule set, each once."""

    source: OutputModel
    """The model before the rules."""
    rule_set: RuleSet
    """The rules without a choice."""
    checks: Checks
    """How sites are proved."""
    how: LoadedModel
    """How the models are loaded."""
    stack: ExitStack
    """Removes temporary files."""
    progress: Progress
    """Called before a model is written."""
    made: dict[tuple[str, ...], FormVariant] = field(default_factory=dict)
    """FormVariants so far, by the rules that they add and leave out."""

    @property
    def provider(self) -> str:
        """Short name of the execution provider."""
        return short_name(self.how.provider)

    @cached_property
    def choices(self) -> RuleChoices:
        """The choices of the rules for the execution provider."""
        return choices_among(unique_rules(self.rule_set.resolved[0]), self.provider)

    @property
    def given(self) -> list[Any]:
        """The rules in the form that the user chose."""
        rules = self.rule_set.rules
        return [rules] if isinstance(rules, (str, Rule, LocalFunction)) else [*rules]

    def start(self) -> FormVariant:
        """The model with the default form of each choice."""
        return self.make(self.choices.defaults)

    def neighbours(self, variant: FormVariant) -> Iterator[FormVariant]:
        """The models that differ from a variant in one form."""
        return map(self.make, self.choices.neighbours(variant.decision, variant.fired))

    def equal_to(self, variant: FormVariant) -> list[str]:
        """The choices of which another form that was tried gives the same graph."""
        same = [one for one in self.made.values() if one.key and one.key == variant.key and one is not variant]
        return sorted({name for one in same for name, form in one.decision.items() if form != variant.decision[name]})

    def make(self, decision: Decision) -> FormVariant:
        """The model for a decision.  Its sites are proved, so a rollback comes before the measurement."""
        selectors = self.choices.selectors(decision)
        if tuple(selectors) not in self.made:
            self.made[tuple(selectors)] = self._make(decision, selectors)
        return self.made[tuple(selectors)]

    def _make(self, decision: Decision, selectors: Sequence[str]) -> FormVariant:
        self.progress("try", len(self.made))
        report = RewriteReport("", "", "", {})
        chosen = replace(self.rule_set, rules=[*self.given, *selectors], expect={}, report=report)
        path, saving = None, Saving()
        if not is_in_memory(self.source):
            home, mode = self.stack.enter_context(temporary_folder(Path(self.source), None))
            path = temporary_path(home, Path(self.source))
            for file in (path, path.with_name(f"{path.name}.data")):
                self.stack.callback(file.unlink, missing_ok=True)
            saving = Saving(path, mode)
        made, _ = run(self.source, [chosen], self.checks, saving)
        model = made if path is None else path
        return FormVariant(decision, chosen, model, graph_key(replace(self.how, source=model)))
