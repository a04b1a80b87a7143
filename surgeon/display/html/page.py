"""A complete page: one file without links to other files or servers.

Line and background colours are mixed from the text colour, so that the same style sheet works in dark mode.  The
script sorts tables; without it, tables keep their first order.
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

from surgeon.display.blocks import Facts, Span
from surgeon.display.html.elements import Markup, concat, element, escape
from surgeon.display.html.html_renderer import HtmlRenderer
from surgeon.errors import ModelFileError, UsageError
from surgeon.file.io.atomic_file import AtomicFile
from surgeon.file.io.file_copy import write_all
from surgeon.result_base import FIRST, SUFFIXES


@dataclass(frozen=True, slots=True)
class Page:
    """Results as one page, which a browser shows and a program reads.

    Examples:
        >>> import surgeon
        >>> _, report = surgeon.rewrite("notebooks/models/tiny_distilbert.onnx", "gelu", output="out.onnx")
        >>> page = surgeon.page(report)
        >>> page.about, page.save("report.html").name
        ('tiny_distilbert.onnx', 'report.html')
    """

    html: str
    """The text of the file."""
    about: str
    """A description in a few words."""

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


def render_page(title: str, content: Sequence[Markup], record: Mapping[str, Any]) -> Page:
    """A page with several results.  record: their envelope."""
    made_by = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    command = Span(record["command"], "code") if record["command"] else ""
    data = json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    about = Facts([("command", command), ("made by", made_by)])
    script, style = asset("page.js"), asset("results.css") + asset("page.css")
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = concat((
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", title),
        Markup(f"<style>{style}</style>"),
    ))
    body = element("main", (element("h1", title), *content), class_="surgeon")
    foot = element("footer", HtmlRenderer().block(about), class_="surgeon")
    stored = Markup(f'<script type="application/json" id="surgeon-report">{data}</script>')
    text = f"{FIRST}<head>{head}</head><body>{body}{foot}{stored}<script>{script}</script></body></html>\n"
    return Page(text, title)


@cache
def asset(name: str) -> str:
    """The text of a file of this package."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
