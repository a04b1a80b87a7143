"""Declarations of TensorRT plugins, in Python and in TOML files.

    # plugins.toml, for `--custom-ops plugins.toml`
    [MyPlugin]
    version = "1"
    inputs = { x = "float32 float16", "mask?" = "x" }
    outputs = { y = "x" }
    fields = { alpha = "float", "size" = "int[2]", "mode?" = "string" }
    shapes = { x = "n c h w", y = "n c 2*h 2*w" }

The same in Python: `surgeon.declare_plugin("MyPlugin", inputs={...}, ...)`.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from surgeon.errors import RuleError, UsageError
from surgeon.ops.schemas.attribute_values import dtype_number, type_string
from surgeon.target_registry import owner
from surgeon.text import did_you_mean

SUFFIX = ".toml"
VERSION = "plugin_version"  # the attribute of a node with the version of its plugin, "1" by default
_FIELD = re.compile(r"(?P<kind>int|float|string|weights)(?P<many>\[(?P<length>\d*)\])?")
_MEANT = {
    "version": '"1"',
    "namespace": '"mine"',
    "inputs": '{ x = "float32" }',
    "outputs": '{ y = "x" }',
    "fields": '{ alpha = "float" }',
    "shapes": '{ x = "n c", y = "n c" }',
}
_NAME = re.compile(r"[A-Za-z_]\w*")
_FUNCTIONS = frozenset(("min", "max", "floor"))
# The syntax nodes that the arithmetic of a size may contain.
_QUOTIENTS = (ast.Div, ast.FloorDiv, ast.Mod)
_SIGNS = (ast.Add, ast.Sub, ast.Mult, ast.USub, *_QUOTIENTS)
_PARTS = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Load, ast.Constant, *_SIGNS)


class Port(NamedTuple):
    """An input or output of a plugin."""

    name: str
    """Its name."""
    dtypes: tuple[str, ...]
    """Allowed dtypes as schemas spell them; empty for any."""
    like: str
    """The input whose dtype it has, or empty."""
    optional: bool
    """It may be omitted."""


@dataclass(frozen=True, slots=True)
class Field:
    """An attribute of a plugin."""

    name: str
    """Its name."""
    kind: str
    """"int", "float", "string" or "weights"."""
    length: int
    """The number of values; 0 for any."""
    required: bool
    """It is required."""
    allowed: tuple[int, ...] = ()
    """The allowed values; empty for any."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One version of one plugin."""

    name: str
    """The op type of its nodes."""
    version: str
    """The attribute `plugin_version`."""
    since: str
    """The first version of TensorRT that has it."""
    deprecated: str
    """The version of TensorRT that deprecates it; "" for none."""
    removed: str
    """The version of TensorRT that removes it; "" for none."""
    instead: str
    """Its replacement."""
    inputs: tuple[Port, ...]
    """In order."""
    outputs: tuple[Port, ...]
    """In order."""
    attributes: Mapping[str, Field] = field(hash=False)
    """By name."""
    is_declared: bool = True
    """Its inputs, outputs and attributes are known."""
    namespace: str = ""
    """The attribute `plugin_namespace`."""
    shapes: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """The sizes of each port, as expressions of names."""


_own: dict[tuple[str, str], Plugin] = {}


def declare_plugin(
    name: str,
    *,
    version: str = "1",
    namespace: str = "",
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    fields: Mapping[str, str] | None = None,
    shapes: Mapping[str, str] | None = None,
) -> None:
    """Declare a custom TensorRT plugin, so that rules can write it, and nodes are checked against it.

    It replaces an earlier declaration of the same name and version.

    Args:
        name: the op type of its nodes.
        version: the attribute `plugin_version`.
        namespace: the attribute `plugin_namespace`.
        inputs: in order; the allowed dtypes of each ("float32 float16"), the name of another input with the same dtype,
            or "any".  A name that ends in "?" is optional.
        outputs: the same for outputs.
        fields: attributes: "int", "float", "string", "weights", a list as "int[]", a list of three as "float[3]".  A
            name that ends in "?" is optional.
        shapes: the sizes of inputs and outputs, separated by spaces: "n c h w", and "n c 2*h 2*w" of an output.  A name
            is the size of an input on that axis, or a field of one integer.  Inference continues after the plugin with
            these shapes, for example in `surgeon.check`.

    Raises:
        UsageError: a dtype or the kind of a field is unknown, or a size of an output contains a name without an input.

    Examples:
        >>> import surgeon
        >>> surgeon.declare_plugin("MySum", inputs={"a": "float32 float16", "b": "a"}, outputs={"c": "a"})
    """
    if not (isinstance(name, str) and name):
        raise UsageError(f"The name of a plugin must be a non-empty string, the op type of its nodes, not {name!r}.")
    inputs, outputs, fields = inputs or {}, outputs or {}, fields or {}
    try:
        ports = [_port(port, text, inputs) for port, text in inputs.items()]
        results = [_port(port, text, inputs) for port, text in outputs.items()]
        attributes = {one.name: one for one in (_field(key, text) for key, text in fields.items())}
        sizes = _shapes(shapes or {}, ports, results, attributes)
    except (ValueError, RuleError) as error:
        raise UsageError(f"The plugin {name!r} cannot be declared: {str(error).rstrip('.')}.") from None
    is_declared = bool(inputs or outputs or fields)
    owner.cache_clear()
    _own[name, version] = Plugin(
        name,
        version,
        since="",
        deprecated="",
        removed="",
        instead="",
        inputs=tuple(ports),
        outputs=tuple(results),
        attributes=attributes,
        is_declared=is_declared,
        namespace=namespace,
        shapes=sizes,
    )


def load_plugins(path: Path | str) -> None:
    """Declare the plugins of a TOML file: one table for each, with the keys of `declare_plugin`.

    Raises:
        UsageError: the file cannot be read, or is invalid.
    """
    import tomllib  # not at the top: few runs read such a file

    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"Cannot read the plugin declarations in '{path}': {why}.") from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UsageError(f"'{path}': {name!r} is not in a table. Start each plugin with [PLUGIN], its name.")
        unknown = next((key for key in table if key not in _MEANT), None)
        if unknown is not None:
            raise UsageError(f"'{path}': [{name}] has no key {unknown!r}; {did_you_mean(unknown, _MEANT)}")
        wrong = next((key for key, value in table.items() if not _is_valid(key, value)), None)
        if wrong is not None:
            meant = f"{wrong} = {_MEANT[wrong]}"
            raise UsageError(f"'{path}': Invalid {wrong} of [{name}]: {table[wrong]!r}. Write strings, as in {meant}.")
        declare_plugin(name, **table)


def declare_plugin_files(files: Sequence[Path | str]) -> Sequence[Path | str]:
    """The files without those of plugins, which are declared.  Raises as `load_plugins`."""
    for file in files:
        if Path(file).suffix == SUFFIX:
            load_plugins(file)
    return [file for file in files if Path(file).suffix != SUFFIX]


def own_plugins() -> Sequence[Plugin]:
    """The declared plugins."""
    return list(_own.values())


def replace_own_plugins(found: Sequence[Plugin]) -> None:
    """Replace all declared plugins, for example in a worker process."""
    owner.cache_clear()
    _own.clear()
    _own.update({(one.name, one.version): one for one in found})


def _is_valid(key: str, value: Any) -> bool:
    if key in ("version", "namespace"):
        return isinstance(value, str)
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _is_size(text: str) -> bool:
    """Whether a text is an integer, a name, or sums, products and quotients of these."""
    try:
        parts = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, ValueError):
        return False
    numbers = [part.value for part in parts if isinstance(part, ast.Constant)]
    quotients = [part for part in parts if isinstance(part, ast.BinOp) and isinstance(part.op, _QUOTIENTS)]
    by_zero = any(isinstance(part.right, ast.Constant) and not part.right.value for part in quotients)
    return not by_zero and all(isinstance(part, _PARTS) for part in parts) and all(type(one) is int for one in numbers)


def _shapes(
    given: Mapping[str, str], inputs: Sequence[Port], outputs: Sequence[Port], fields: Mapping[str, Field]
) -> dict[str, tuple[str, ...]]:
    """The sizes of ports.  Raises ValueError for unknown ports and names, and for texts that are not sizes."""
    found: dict[str, tuple[str, ...]] = {}
    for name, text in given.items():
        found[name.removesuffix("?")] = tuple(text.split())
        if not all(map(_is_size, text.split())):
            raise ValueError(f"{text!r} are not sizes; separate sizes by spaces, as in 'n c 2*h 2*w'")
    known = {name for port in inputs for size in found.get(port.name, ()) for name in _NAME.findall(size)}
    known |= {name for name, one in fields.items() if one.kind == "int" and one.length == 1} | _FUNCTIONS
    strange = sorted(found.keys() - {port.name for port in (*inputs, *outputs)})
    if strange:
        raise ValueError(f"shapes contains {strange[0]!r}, which is neither an input nor an output")
    for port in outputs:
        unknown = {name for size in found.get(port.name, ()) for name in _NAME.findall(size)} - known
        if unknown:
            raise ValueError(f"the size {sorted(unknown)[0]!r} of {port.name!r} is neither of an input nor a field")
    return found


def _port(name: str, text: str, inputs: Mapping[str, str]) -> Port:
    """Parse an input or output.  Raises ValueError for an unknown dtype."""
    names = {key.removesuffix("?") for key in inputs}
    like = text if text in names and text != name else ""
    words = [] if like or text == "any" else text.split()
    dtypes = tuple(type_string(dtype_number(word))[7:-1] for word in words)
    return Port(name.removesuffix("?"), dtypes, like, name.endswith("?"))


def _field(name: str, text: str) -> Field:
    found = _FIELD.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a kind of field; write int, float, string or weights, int[] or int[2]")
    length = 1 if found["many"] is None else int(found["length"] or 0)
    return Field(name.removesuffix("?"), found["kind"], length, not name.endswith("?"))
