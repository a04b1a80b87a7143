"""A real browser for tests: Chromium where there is one, and what a page must not do in it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@contextmanager
def chromium() -> Iterator[object]:
    """A browser; the test is skipped where there is none, or nothing that drives it."""
    api = pytest.importorskip("playwright.sync_api", reason="nothing drives a browser: pip install playwright")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with api.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield found
        finally:
            found.close()


class Watched:
    """A page of a browser that notes what is wrong: errors of scripts, words on the console, and requests."""

    def __init__(self, browser: object, scheme: str = "light", allowed: str = "file:", **settings: object) -> None:
        self.page = browser.new_page(color_scheme=scheme, viewport={"width": 1100, "height": 800}, **settings)
        self.page.set_default_timeout(600_000)  # on a busy machine a page takes long, and no test asks how long
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("console", lambda reported: self.wrong.append(f"{reported.type}: {reported.text}"))
        self.page.on("request", lambda asked: self._note(asked.url, allowed))

    def _note(self, url: str, allowed: str) -> None:
        if not url.startswith((allowed, "data:", "blob:")):
            self.wrong.append(f"request: {url}")

    def open(self, path: Path) -> object:
        """Show a file; returns the page."""
        self.page.goto(path.resolve().as_uri())
        return self.page


def inaccessible(page: object) -> list[str]:
    """What axe-core finds wrong with a page: rule, and the first element that breaks it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed").Axe()
    found = axe.run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]
