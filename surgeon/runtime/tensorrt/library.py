"""Find the installed TensorRT without loading it."""

from dataclasses import dataclass
from importlib import metadata, util

from surgeon.errors import UsageError


@dataclass(frozen=True, slots=True)
class Library:
    """A TensorRT that can be installed."""

    name: str
    """Value of `--trt`."""
    title: str
    """Its name in messages."""
    modules: tuple[str, ...]
    """Names of its module; the first that exists counts."""
    distributions: tuple[str, ...]
    """Packages that may contain the module; the installed one has the version."""

    @property
    def module(self) -> str | None:
        """The module to import; None if it is not installed."""
        return next((name for name in self.modules if util.find_spec(name) is not None), None)

    @property
    def version(self) -> str:
        """Its version, three numbers; empty if unknown."""
        for name in self.distributions:
            try:
                return ".".join(metadata.version(name).split(".")[:3])
            except metadata.PackageNotFoundError:
                continue
        return ""


def _named(name: str, title: str, module: str) -> Library:
    parts = [f"{name}{kind}" for kind in ("", "-cu13-bindings", "-cu12-bindings")]
    return Library(name, title, (module, f"{module}_bindings"), tuple(parts))


LIBRARIES = (_named("tensorrt-rtx", "TensorRT-RTX", "tensorrt_rtx"), _named("tensorrt", "TensorRT", "tensorrt"))


def installed(name: str | None = None) -> Library | None:
    """The library with this name, by default TensorRT-RTX; None if that default is not installed.

    Raises:
        UsageError: no library has the name, or the named one is not installed.
    """
    wanted = name or LIBRARIES[0].name
    found = next((library for library in LIBRARIES if library.name == wanted), None)
    if found is None:
        raise UsageError(f"Unknown TensorRT library {name!r}. Choose {' or '.join(one.name for one in LIBRARIES)}.")
    if found.module is not None:
        return found
    if name is not None:
        raise UsageError(f"{found.title} is not installed. Install it: pip install {found.name}")
    return None
