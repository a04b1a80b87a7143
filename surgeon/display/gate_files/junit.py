"""The result of the gate as JUnit XML, which CI servers show as tests: a test case per model."""

import re
from collections.abc import Iterable
from xml.etree import ElementTree

from surgeon.automation.gate.gate_result import GateResult
from surgeon.automation.gate.model_comparison import Difference
from surgeon.display.gate_files.shown_names import without_folders
from surgeon.text import format_count

FIRST = "<?xml version='1.0' encoding='utf-8'?>\n<testsuites name=\"surgeon-gate\""
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # characters that XML cannot have


def junit_text(found: GateResult) -> str:
    """The text of a JUnit file."""
    names = sorted(found.models.keys() | {one.model for one in found.differences})
    by_model = {name: [one for one in found.regressions if one.model == name] for name in names}
    cases = [_case(name, regressions, found) for name, regressions in by_model.items()]
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": "0",
        "skipped": str(sum(case.find("skipped") is not None for case in cases)),
        "time": f"{found.seconds:.3f}",
    }
    suites = ElementTree.Element("testsuites", {"name": "surgeon-gate", **counts})
    ElementTree.SubElement(suites, "testsuite", {"name": f"target {found.settings['target']}", **counts}).extend(cases)
    ElementTree.indent(suites, " ")
    text: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return f"{text.decode()}\n"


def _case(name: str, regressions: list[Difference], found: GateResult) -> ElementTree.Element:
    """The test case of a model: one failure with all lines; regressions that are only warnings are its output."""
    case = ElementTree.Element("testcase", {"name": _valid(name), "classname": "surgeon.gate"})
    if not found.has_baseline:
        ElementTree.SubElement(case, "skipped", {"message": "No baseline to compare with."})
    elif regressions:
        rules = [one.rule for one in regressions if one.rule is not None]
        fails = any(map(found.stops, rules)) and not found.updated
        attributes = {"message": format_count(len(rules), "regression"), "type": rules[0].id} if fails else {}
        part = ElementTree.SubElement(case, "failure" if fails else "system-out", attributes)
        part.text = _valid("\n".join(_lines(regressions)))
    return case


def _lines(regressions: Iterable[Difference]) -> Iterable[str]:
    for one in regressions:
        rule = "" if one.rule is None else f"{one.rule.title}: "
        yield without_folders(f"{rule}{one.text}")


def _valid(text: str) -> str:
    """A text with escapes for characters that XML cannot have."""
    return _NO_XML.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
