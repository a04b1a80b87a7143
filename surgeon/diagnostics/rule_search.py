"""Searches the installed rules for a text."""

from surgeon.rules.catalogue import all_rules, groups, resolve, unique_rules
from surgeon.rules.definition_checks import try_trace
from surgeon.rules.matching.pattern import ops_of
from surgeon.rules.rule import Rule


def rules_with(text: str) -> list[tuple[str, str, Rule]]:
    """The rules of a group, or those whose name, file, family, ops or summary contain a text, as `all_rules`.

    Raises RuleError with the nearest names if there are none.
    """
    wanted = text.lower()
    if wanted in groups():
        members = unique_rules(resolve(wanted))
        return [row for row in all_rules() if row[2] in members]
    found = []
    for pack, module, rule in all_rules():
        ops = {op for form in rule.forms for pattern in try_trace(form.function) or () for op in ops_of(pattern)}
        words = (rule.name, *module.split(".")[-2:], rule.doc.partition("\n")[0], *ops)
        if any(wanted in word.lower() for word in words):
            found.append((pack, module, rule))
    if not found:
        resolve(text)  # raises an error with the nearest names
    return found
