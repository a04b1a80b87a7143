"""The operation to learn: a module, a class or factory with arguments, or a function of tensors."""

import copy
import functools
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from surgeon.errors import UsageError
from surgeon.script_imports import importable

BROKEN = (Exception,)  # a module may raise anything for invalid inputs; the error is reported
_MISSING = re.compile(r"missing \d+ required (?:positional|keyword-only) arguments?: (.+)")


class FunctionModule(torch.nn.Module):
    """A module that calls a function."""

    def __init__(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        super().__init__()
        self._function, self._arguments = function, dict(arguments)

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Call the function."""
        return self._function(*inputs, **self._arguments)


@dataclass
class Operation:
    """An operation, and how to make a module of it."""

    title: str
    """The name of the operation."""
    make: Callable[[Mapping[str, Any]], torch.nn.Module]
    """Makes a module from arguments."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """The arguments of the class, factory or function by name."""
    given: frozenset[str] = frozenset()
    """The names of arguments from the caller; the others are defaults."""

    def module(self, arguments: Mapping[str, Any] | None = None) -> torch.nn.Module:
        """A new module in evaluation mode.  Raises UsageError if it cannot be made with these arguments."""
        try:
            made = self.make({**self.arguments, **(arguments or {})})
        except BROKEN as error:
            missing = _MISSING.search(first_line(error))
            names = re.findall(r"'(\w+)'", missing[1]) if missing else []
            given = " ".join(f"--arg {name}=..." for name in names)
            how = f"Give {given}, in Python arguments={{{names[0]!r}: ...}}" if names else "Give other arguments"
            raise UsageError(
                f"{self.title} cannot be created with these arguments ({first_line(error)}). {how}."
            ) from error
        if not isinstance(made, torch.nn.Module):
            raise UsageError(f"{self.title} returns a {type(made).__name__}, not an nn.Module.")
        return made.eval()

    def names(self, count: int) -> list[str]:
        """The parameter names of its tensors."""
        module = self.module()
        function = module._function if isinstance(module, FunctionModule) else module.forward
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):  # a function of C without a signature
            parameters = []
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = [item.name for item in parameters if item.kind in kinds]
        return [names[place] if place < len(names) else "x" for place in range(count)]


def as_operation(what: Any, arguments: Mapping[str, Any], title: str | None = None) -> Operation:
    """The operation of an nn.Module, a class of modules, a factory (a callable without tensors), or a function.

    A name ("torch.nn:GELU", "./my_modules.py:Block") is looked up first.  Raises UsageError for other objects.
    """
    if isinstance(what, str):
        return as_operation(_found(what), arguments, title or what.rpartition(":")[2].rpartition(".")[2])
    if isinstance(what, torch.nn.Module):
        if arguments:
            raise UsageError("Arguments are only for a class or a function. A module already has its own.")
        name = title or type(what).__name__
        return Operation(name, lambda _: copy.deepcopy(what))
    if not callable(what):
        raise UsageError(
            f"{what!r} is not a module, class or function. Give one of these, or a name such as 'torch.nn:GELU'."
        )
    name = title or getattr(what, "__name__", type(what).__name__).replace("<lambda>", "Learned")
    known = {**_defaults(what), **arguments}
    if isinstance(what, type):
        if not issubclass(what, torch.nn.Module):
            raise UsageError(
                f"{name} is not a module class. Give an nn.Module class or a function."
            )
        return Operation(name, lambda given: what(**given), known, frozenset(arguments))
    if _is_factory(what, arguments):
        if title is None:
            name = type(what(**arguments)).__name__
        return Operation(name, lambda given: what(**given), known, frozenset(arguments))
    keywords = _keywords(what)
    known = {key: value for key, value in known.items() if key in arguments or key in keywords}
    kind = type(name, (FunctionModule,), {})  # exporters call it by its class
    return Operation(name, lambda given: kind(what, given), known, frozenset(arguments))


def _found(name: str) -> Any:
    """The object of a name such as "package.module:attribute" or "./file.py:attribute"."""
    module_name, colon, attribute = name.rpartition(":")
    if not colon:
        module_name, _, attribute = name.rpartition(".")
    if not module_name or not attribute:
        raise UsageError(f"{name!r} has no module. Give package.module:Name, for example torch.nn:GELU")
    module = _module_of(module_name)
    try:
        return functools.reduce(getattr, attribute.split("."), module)
    except AttributeError:
        raise UsageError(f"{module_name} has no {attribute!r}. Check the spelling.") from None


def _module_of(name: str) -> Any:
    try:
        if not name.endswith(".py"):
            if "" not in sys.path and "." not in sys.path:
                sys.path.append("")
            return importlib.import_module(name)
        spec = importlib.util.spec_from_file_location(Path(name).stem, name)
        if spec is None or spec.loader is None or not Path(name).is_file():
            raise UsageError(f"File not found: {name}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # pickle and dataclasses look up classes there
        with importable(Path(name).parent):
            spec.loader.exec_module(module)
    except (ImportError, SyntaxError, *BROKEN) as error:
        raise UsageError(
            f"{name} cannot be imported ({first_line(error)}). Check the name, or fix the module."
        ) from error
    return module


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """The default values of the parameters."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # C code without a signature
        return {}
    return {item.name: item.default for item in parameters if item.default is not inspect.Parameter.empty}


def _keywords(function: Callable[..., Any]) -> set[str]:
    """The names of parameters with a number as default: the hyper-parameters."""
    found = _defaults(function)
    return {name for name, value in found.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}


def _is_factory(function: Callable[..., Any], arguments: Mapping[str, Any]) -> bool:
    """Whether a call without tensors returns a module."""
    try:
        inspect.signature(function).bind(**arguments)
    except (TypeError, ValueError):
        return False
    try:
        return isinstance(function(**arguments), torch.nn.Module)
    except BROKEN:
        return False  # a function that only takes tensors, such as f(*xs)


def first_line(error: BaseException) -> str:
    """The first line of an error message, without its full stop."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")


def run_error(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> str | None:
    """Why a module does not run with these inputs; None if it runs."""
    try:
        with torch.no_grad():
            module(*inputs)
    except BROKEN as error:
        return first_line(error)
    return None
