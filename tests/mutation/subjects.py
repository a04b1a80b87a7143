"""What is mutated: the models of the tests of the rules, and real exports, each with the rules that run over it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import onnx

import tests.patterns
from surgeon import Rule
from surgeon.testing import Case
from tests.mutation.mutating import Subject
from tests.mutation.words import all_words, forms, rule_of_word


@cache
def fixtures() -> tuple[Subject, ...]:
    """The forms of words, and the models in ONNX text on which rules are known to fire."""
    found: dict[str, Subject] = {}
    for one in _fixtures():
        turn = sum(name.partition(" #")[0] == one.name for name in found)
        name = f"{one.name} #{turn + 1}" if turn else one.name
        found[name] = replace(one, name=name)
    return tuple(found.values())


def _fixtures() -> Iterator[Subject]:
    yield from in_words()
    for module in pkgutil.iter_modules(tests.patterns.__path__):
        tables = vars(importlib.import_module(f"tests.patterns.{module.name}"))
        for case in tables.get("FIRES", ()):
            if isinstance(case, Case) and case.check:
                rules = (case.rules,) if isinstance(case.rules, Rule) else tuple(case.rules)
                name = f"{module.name.removeprefix('test_')}/{case.title}"
                yield Subject(name, "fixture", case.model, rules, case.target, case.ep)


def in_words() -> Iterator[Subject]:
    """Each form of each word of the vocabulary, with a rule that writes its first."""
    for word in all_words():
        for at, model in enumerate(forms(word)):
            yield Subject(f"words/{word}, form {at}", "word", model, (rule_of_word(word),), "onnx")


def exports() -> Iterator[Subject]:
    """What torch's exporters wrote for the forms of the matrix and the modules of attention."""
    from surgeon.rules.catalogue import resolve, unique_rules
    from tests.attention.cases import FORMS, Variant
    from tests.attention.cases import Case as Attention
    from tests.attention.exporting import export
    from tests.matrix import operations
    from tests.matrix.cases import Column, family
    from tests.matrix.modules import FAMILIES

    for column in (Column("ts", 17, "fp32"), Column("ts", 13, "fp16")):
        for name in FAMILIES:
            for one in family(name, column):
                if one.path is not None and not one.form.startswith("decoy"):
                    ep = operations.provider(one.truth)
                    yield Subject(one.name, "export", onnx.load(one.path), tuple(operations.rules()), ep=ep)
    rules = tuple(unique_rules(resolve("transformers")))
    for form in FORMS:
        found = export(Attention(Variant(form, "own", False), "ts", 17, "fp32", True))
        if found.path is not None:
            yield Subject(found.name, "export", onnx.load(found.path), rules)
