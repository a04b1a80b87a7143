"""Names in a model are data: none of them controls the screen."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from surgeon.display.terminal.console import make_console
from surgeon.display.terminal.sanitise import LONGEST, sanitise


@given(st.text(st.characters(blacklist_categories=())))
def test_nothing_is_left_that_does_anything(text):
    shown = sanitise(text)
    assert shown.isprintable()
    assert max(map(len, shown.split()), default=0) <= max(LONGEST, 6 * 181)


@given(st.text(st.characters(categories=("L", "N", "P", "S")), max_size=LONGEST))
def test_what_people_write_stays_as_it_is(text):
    assert sanitise(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nError: b", "a\\nError: b"),
        ("\x1b[2J\x1b]0;owned\x07", "\\x1b[2J\\x1b]0;owned\\x07"),
        ("exe\u202egnp", "exe\\u202egnp"),
        ("half a pair \udcff", "half a pair \\udcff"),
        ("Größe/ä.1 ≤ 日本", "Größe/ä.1 ≤ 日本"),
        ("at " + "n" * 1000 + " here", "at " + "n" * 120 + "…" + "n" * 60 + " here"),
    ],
)
def test_what_is_shown(text, shown):
    assert sanitise(text) == shown


def test_a_console_keeps_styles_and_shows_names_as_they_are():
    stream = io.StringIO()
    console = make_console(stream)
    console.print(Text.assemble(("bold\x1b[2J", "bold"), " [red]plain\n"))
    console.print("[b]\x07")
    assert stream.getvalue() == "bold\\x1b[2J [red]plain\\n\n[b]\\x07\n"
