"""A whole page: one file that needs no other, and asks nobody for anything.

Colours follow what stands behind: lines and grounds are mixed of the colour of the text, so that a dark ground needs no
second sheet.  The script sorts tables; without it all is there and stands in its first order.
"""

import hashlib
import json
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from surgeon.display.html.elements import Markup, code, concat, element, escape, fields
from surgeon.errors import ModelFileError, UsageError
from surgeon.file.io.atomic_file import AtomicFile
from surgeon.file.io.file_copy import write_all
from surgeon.result_base import FIRST, SUFFIXES
from surgeon.versions import versions

SCHEMA = "surgeon.report/1"
"""What the JSON inside of a page is written by; a change that breaks readers raises the number."""


@dataclass(frozen=True, slots=True)
class Page:
    """Results as one page, which a browser shows and a program reads.

    Attributes:
        html: all of the file.
        about: what is on it, in a few words.

    Examples:
        >>> import surgeon
        >>> _, report = surgeon.rewrite("notebooks/models/tiny_distilbert.onnx", "gelu", output="out.onnx")
        >>> page = surgeon.page(report)
        >>> page.about, page.save("report.html").name
        ('tiny_distilbert.onnx', 'report.html')
    """

    html: str
    about: str

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, whole or not at all.

        Args:
            path: where, a name that ends in .html.

        Returns:
            The path.

        Raises:
            UsageError: another ending.
            ModelFileError: it cannot be written.
        """
        if Path(path).suffix.lower() not in SUFFIXES:
            raise UsageError(f"Pages are written as HTML: give a name that ends in .html in place of {path}.")
        try:
            with AtomicFile(Path(os.path.realpath(path))) as file:
                write_all(file.handle, self.html.encode("utf-8", "backslashreplace"))
                file.commit()
        except OSError as error:
            raise ModelFileError(f"The page {path} cannot be written: {error.strerror}.") from None
        return Path(path)

    def __repr__(self) -> str:
        return f"<Page: {self.about}>"


def whole(title: str, content: Sequence[Markup], data: Sequence[Mapping[str, Any]], command: str) -> Page:
    """A page of some results.  data: what JSON has of each, with its kind; command: what was run, may be empty."""
    record = {"schema": SCHEMA, "versions": versions(), "command": command, "results": list(data)}
    told = json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    about = [("command", code(command) if command else ""), ("made by", _made_by())]
    script, style = asset("page.js"), asset("results.css") + asset("page.css")
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{_digest(script)}'"
    head = concat((
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", title),
        Markup(f"<style>{style}</style>"),
    ))
    body = element("main", (element("h1", title), *content), class_="surgeon")
    foot = element("footer", fields(about), class_="surgeon")
    stored = Markup(f'<script type="application/json" id="surgeon-report">{told}</script>')
    text = f"{FIRST}<head>{head}</head><body>{body}{foot}{stored}<script>{script}</script></body></html>\n"
    return Page(text, title)


def read(path: str | os.PathLike[str]) -> Any:
    """The JSON inside of a page."""
    text = Path(path).read_text(encoding="utf-8")
    _, _, rest = text.partition('id="surgeon-report">')
    return json.loads(rest.partition("</script>")[0])


@cache
def asset(name: str) -> str:
    """A file that lies beside this one."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def _made_by() -> str:
    return ", ".join(f"{name} {version}" for name, version in versions().items())


def _digest(text: str) -> str:
    return b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
