"""Runs a page of the documentation: every block in it, in order, in a folder of the page's own.

What a block is, its first line says:

    ```python title="my_rules.py"    a file of that name
    ```python                        runs, in one scope for the page
    ```sh                            one command a line; `# exit code 1` behind one that does not end with 0
    ```text                          lines that the block above printed
    ```toml                          is read, as json and yaml are; with a title, a file of that name

Commands of surgeon run in this process, those of PROGRAMS in a shell.  `notebooks/models` is there, as in a checkout,
and files of the page can be imported.
"""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

from tests.command_line import ROOT, run, surroundings
from tests.shown import missing

TITLE = re.compile(r'title="([^"]+)"')
CODE = re.compile(r"# exit code (\d)$")
PROGRAMS = ("olive", "polygraphy", "python")


def _read_yaml(text: str) -> object:
    import yaml  # not at the top: the quick tests of old versions read no YAML

    return yaml.safe_load(text)


READERS = {"json": json.loads, "toml": tomllib.loads, "yaml": _read_yaml}


class PageError(AssertionError):
    """A block that does not do what the page says."""


@dataclass(frozen=True)
class Block:
    """A fenced block.  info: what stands behind the fence; line: of the page, the first is 1."""

    info: str
    text: str
    line: int

    @property
    def language(self) -> str:
        """The first word behind the fence."""
        return self.info.split()[0] if self.info.split() else ""


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            yield Block(token.info, token.content, (token.map or [0])[0] + 1)


def run_page(page: Path) -> int:
    """Run the blocks of a page in the working directory, which is to be empty; returns how many there were.

    Raises PageError, naming the line of the page, where a block fails or prints something else.
    """
    Path("notebooks").mkdir()
    Path("notebooks/models").symlink_to(ROOT / "notebooks" / "models")
    before = set(sys.modules)
    sys.path.insert(0, str(Path.cwd()))
    try:
        return _run(page)
    finally:
        sys.path.remove(str(Path.cwd()))
        for name in set(sys.modules) - before:
            if Path(getattr(sys.modules[name], "__file__", None) or ROOT).parent == Path.cwd():
                del sys.modules[name]


def _run(page: Path) -> int:
    scope: dict[str, object] = {"__name__": "page"}
    printed, found = "", list(blocks(page))
    for block in found:
        at = f"{page.name}:{block.line}"
        if block.language == "text":
            lost = missing(block.text, printed)
            if lost:
                raise PageError(f"{at}: not printed:\n" + "\n".join(lost) + f"\nbut:\n{printed}")
        elif block.language in ("python", *READERS) and (title := TITLE.search(block.info)):
            Path(title[1]).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            printed = _printed(block, at, scope)
        elif block.language == "sh":
            printed = "".join(_command(line, at) for line in block.text.splitlines() if line.strip())
        elif block.language in READERS:
            READERS[block.language](block.text)
        else:
            raise PageError(f"{at}: a block of {block.language or 'no language'} is not run; see tests/pages.py.")
    return len(found)


def _printed(block: Block, at: str, scope: dict[str, object]) -> str:
    """What a block of Python prints."""
    reported = io.StringIO()
    try:
        with contextlib.redirect_stdout(reported):
            exec(compile("\n" * block.line + block.text, at, "exec"), scope)
    except Exception as error:
        raise PageError(f"{at}: {type(error).__name__}: {error}") from error
    return reported.getvalue()


def _command(line: str, at: str) -> str:
    """What a command of surgeon prints."""
    name, *arguments = shlex.split(line, comments=True)
    if name in PROGRAMS:
        return _other_command(line, at)
    if name != "surgeon":
        raise PageError(f"{at}: {name} is not run; a page shows commands of surgeon alone.")
    wanted = int(found[1]) if (found := CODE.search(line)) else 0
    result = run(*arguments)
    if result.exit_code != wanted:
        raise PageError(f"{at}: {line}: exit code {result.exit_code}, not {wanted}:\n{result.output}")
    return result.output


def _other_command(line: str, at: str) -> str:
    """What a command of another program prints, of the environment that runs the tests, in a shell."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    found = subprocess.run(
        line, shell=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        env=surroundings(PATH=path, CI="true"),  # so that Olive reports nothing over the network
    )  # fmt: skip
    if found.returncode:
        raise PageError(f"{at}: {line}: exit code {found.returncode}:\n{found.stdout}")
    return found.stdout
