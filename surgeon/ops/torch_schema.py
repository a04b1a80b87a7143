"""The schemas of torch's operators, as text and as plain values: names, types and defaults of arguments.

`parse` reads one schema as torch writes it.  ATen's are in a table of the package (`tests/make_aten_schemas.py` writes
it), so they do not need torch.  Those of other namespaces come from `torch_schema`, or from torch if the user's program
has loaded it.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from onnx import TensorProto

from surgeon.errors import UsageError
from surgeon.text import close_matches, join_all

ScalarTypes = Mapping[int, int]
SCALAR_TYPES: ScalarTypes = MappingProxyType(
    {
        0: TensorProto.UINT8,
        1: TensorProto.INT8,
        2: TensorProto.INT16,
        3: TensorProto.INT32,
        4: TensorProto.INT64,
        5: TensorProto.FLOAT16,
        6: TensorProto.FLOAT,
        7: TensorProto.DOUBLE,
        9: TensorProto.COMPLEX64,
        10: TensorProto.COMPLEX128,
        11: TensorProto.BOOL,
        15: TensorProto.BFLOAT16,
        23: TensorProto.FLOAT8E5M2,
        24: TensorProto.FLOAT8E4M3FN,
        25: TensorProto.FLOAT8E5M2FNUZ,
        26: TensorProto.FLOAT8E4M3FNUZ,
        27: TensorProto.UINT16,
        28: TensorProto.UINT32,
        29: TensorProto.UINT64,
    }
)
"""torch's number of a dtype (c10/core/ScalarType.h) -> that of `onnx.TensorProto`."""

# The attribute type of an argument other than a tensor; a Scalar is INT or FLOAT by its value.
_ATTRIBUTES = {"int": "INT", "bool": "INT", "float": "FLOAT", "str": "STRING", "ScalarType": "INT", "Scalar": "NUMBER"}
# Arguments about the memory of a tensor, not its numbers: a placeholder omits them.
_BESIDE = ("Device", "Layout", "MemoryFormat", "Generator", "Stream")
_ALIAS = re.compile(r"\([a-z*|! ]*(?: -> [a-z*| ]*)?\)")  # (a!), (a -> *): aliases do not matter here
_TYPE = re.compile(r"(?P<base>[\w.]+(?:\(.*\))?|\(.*\))(?P<marks>(?:\?|\[\d*\])*)$")
_SCHEMA = re.compile(r"\s*(?P<ns>\w+)::(?P<name>\w+)(?:\.(?P<overload>\w+))?\s*\((?P<rest>.*)$", re.DOTALL)
_OPENING, _CLOSING = "([", ")]"


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, or one result, of a torch operator."""

    name: str
    """Empty for a result without a name."""
    type: str
    """Without aliases, and with `int` for `SymInt`: "Tensor", "Tensor?[]", "int[2]"."""
    default: Any = None
    """A Python value; a dtype is torch's number of it (`SCALAR_TYPES`)."""
    keyword_only: bool = False
    """It cannot be positional."""
    has_default: bool = False
    """It may be omitted."""

    @property
    def base(self) -> str:
        """The type without list and optional: "Tensor", "int", "Scalar"."""
        return self.type.partition("?")[0].partition("[")[0]

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor or a list of tensors, with or without None among them."""
        return self.base == "Tensor"

    @property
    def is_list(self) -> bool:
        """Whether it accepts several values."""
        return "[" in self.type

    @property
    def is_optional(self) -> bool:
        """Whether it may be None as a whole."""
        return self.type.endswith("?")

    @property
    def attribute(self) -> str | None:
        """Its attribute type: INT, FLOAT, STRING, INTS, FLOATS, STRINGS, or NUMBER(S), which is INT or FLOAT by value.

        None for tensors, for arguments that a placeholder omits, and for types that ONNX attributes do not have.
        """
        kind = _ATTRIBUTES.get(self.base)
        return kind and kind + "S" * self.is_list

    @property
    def is_left_out(self) -> bool:
        """Whether a placeholder omits it: a device, a layout, a memory format, a generator."""
        return self.base in _BESIDE


@dataclass(frozen=True, slots=True)
class TorchSchema:
    """The schema of one overload of a torch operator."""

    namespace: str
    """Such as "aten"."""
    name: str
    """Without namespace and overload."""
    overload: str
    """Empty for the default overload."""
    arguments: tuple[Argument, ...]
    """In order."""
    returns: tuple[Argument, ...]
    """Its results, in order."""

    @property
    def qualified(self) -> str:
        """The operator without its overload: `aten::add`."""
        return f"{self.namespace}::{self.name}"

    @property
    def full(self) -> str:
        """The operator with its overload: `aten::add.Tensor`."""
        return f"{self.qualified}.{self.overload}" if self.overload else self.qualified

    @property
    def tensors(self) -> tuple[Argument, ...]:
        """The arguments that are inputs of a node, in order."""
        return tuple(argument for argument in self.arguments if argument.is_tensor)

    def argument(self, name: str) -> Argument | None:
        """The argument of a name."""
        return next((argument for argument in self.arguments if argument.name == name), None)


def parse(text: str) -> TorchSchema:
    """Read a schema: `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.

    Raises UsageError for an invalid schema.
    """
    head = _SCHEMA.match(text)
    if head is None:
        raise UsageError(
            f"{text.strip()!r} is not a schema of a torch operator. Example: "
            "'mylibrary::op(Tensor x, float alpha=1.0) -> Tensor'."
        )
    inside, after = _closed(head["rest"], text)
    arrow, _, returned = after.partition("->")
    if arrow.strip() or not returned.strip():
        raise UsageError(f"The schema {text.strip()!r} has no return type. End it with '-> Tensor'.")
    arguments, keyword_only = [], False
    for item in _items(inside):
        if item == "*":
            keyword_only = True
        else:
            arguments.append(replace(_argument(item, text), keyword_only=keyword_only))
    returned = returned.strip()
    whole = returned.startswith("(") and _closed(returned[1:], text)[1].strip() == ""
    results = [_result(item, text) for item in _items(returned[1:-1] if whole else returned)]
    name, overload = head["name"], head["overload"] or ""
    return TorchSchema(
        head["ns"], name, "" if overload == "default" else overload, arguments=tuple(arguments), returns=tuple(results)
    )


def torch_schema(text: str) -> TorchSchema:
    """Declare the schema of an operator, if torch is not loaded or does not have the operator.

    The rule `named_arguments` then knows the meaning of the inputs of such a node.  A later schema of the same name and
    overload replaces the earlier one.

    Args:
        text: a schema as torch writes it.

    Returns:
        The schema: namespace, name, overload and arguments.

    Raises:
        UsageError: the schema is invalid.

    Examples:
        >>> import surgeon
        >>> surgeon.torch_schema("mylibrary::scaled(Tensor x, float alpha=1.0) -> Tensor").name
        'scaled'
    """
    made = parse(text)
    same = _declared.setdefault((made.namespace, made.name), {})
    same[made.overload] = made
    return made


def known(namespace: str, name: str) -> tuple[TorchSchema, ...]:
    """The schemas of all overloads of an operator; empty for an unknown one.

    Schemas given to `torch_schema` come before torch's own, and these before the table.
    """
    found = {one.overload: one for one in _from_table(namespace, name)}
    found.update({one.overload: one for one in _from_torch(namespace, name)})
    found.update(_declared.get((namespace, name), {}))
    return tuple(found.values())


def matching_overload(
    namespace: str,
    name: str,
    overload: str | None = None,
    *,
    inputs: int | None = None,
    takes: Callable[[int, Argument], bool] | None = None,
) -> TorchSchema:
    """The one overload that fits a call.

    overload: its name, None for any.  inputs: the number of arguments in the call; further ones must have a default.
    takes: whether the value at a position fits the argument.  The overload that omits the fewest arguments wins, then
    the one with the most tensors.

    Raises UsageError, with near names, for an unknown operator, and if no overload fits.
    """
    everything = known(namespace, name)
    if not everything:
        near = near_names(namespace, name)
        hint = f"did you mean {join_all(near, 'or')}?" if near else "give its schema to surgeon.torch_schema."
        raise UsageError(f"Unknown schema of {namespace}::{name}; {hint}")
    of_name = [one for one in everything if overload is None or one.overload == overload]
    if not of_name:
        listed = ", ".join(one.overload or "default" for one in everything)
        raise UsageError(f"{namespace}::{name} has no overload {overload!r}; it has {listed}.")
    fits = [one for one in of_name if _fits(one, inputs, takes)]
    if not fits:
        what = f"{inputs} arguments" if inputs is not None else "these arguments"
        raise UsageError(f"No overload of {namespace}::{name} accepts {what}. Check the inputs of the node.")
    return min(fits, key=lambda one: (len(one.arguments), -len(one.tensors)))


def namespaces_of(name: str) -> list[str]:
    """The namespaces, except for ATen's, that have an operator of a name: declared, or registered in a loaded torch."""
    found = {namespace for namespace, own in _declared if own == name}
    listing = getattr(getattr(sys.modules.get("torch"), "_C", None), "_dispatch_get_all_op_names", None)
    for full in listing() if listing is not None else ():
        namespace, _, rest = full.partition("::")
        if rest.partition(".")[0] == name:
            found.add(namespace)
    return sorted(namespace for namespace in found - {"aten"} if known(namespace, name))


def near_names(namespace: str, name: str) -> list[str]:
    """At most three known names similar to an unknown one, as `aten::gelu`."""
    names = {ns_name for ns_name in (*_table(), *_declared) if ns_name[0] == namespace}
    close = close_matches(name, (one for _, one in names), cutoff=0.75)
    return [f"{namespace}::{one}" for one in close]


def _fits(one: TorchSchema, inputs: int | None, takes: Callable[[int, Argument], bool] | None) -> bool:
    if inputs is None:
        return True
    if inputs > len(one.arguments) or not all(item.has_default for item in one.arguments[inputs:]):
        return False
    return takes is None or all(takes(place, item) for place, item in enumerate(one.arguments[:inputs]))


_declared: dict[tuple[str, str], dict[str, TorchSchema]] = {}


@cache
def _table() -> Mapping[tuple[str, str], tuple[str, ...]]:
    """The lines of the table by namespace and name; each line is parsed on demand."""
    text = (files("surgeon.ops") / "data" / "aten_schemas.txt").read_text(encoding="utf-8")
    lines: dict[tuple[str, str], list[str]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            full = line if line.startswith("prims::") else f"aten::{line}"
            namespace, _, rest = full.partition("::")
            lines.setdefault((namespace, rest.partition("(")[0].partition(".")[0]), []).append(full)
    return {key: tuple(value) for key, value in lines.items()}


@cache
def _from_table(namespace: str, name: str) -> tuple[TorchSchema, ...]:
    return tuple(parse(line) for line in _table().get((namespace, name), ()))


def _from_torch(namespace: str, name: str) -> Iterator[TorchSchema]:
    """The schemas that torch has registered, if it is loaded: of user operators, and of newer releases."""
    torch = sys.modules.get("torch")
    listing = getattr(getattr(torch, "_C", None), "_jit_get_schemas_for_operator", None)
    if listing is None or (namespace, name) in _table():
        return
    for one in listing(f"{namespace}::{name}"):
        if not any(getattr(item, "is_out", False) for item in one.arguments) and "..." not in str(one):
            yield parse(str(one))


def _closed(text: str, whole: str) -> tuple[str, str]:
    """The text before the closing parenthesis, and the text after it."""
    depth = 1
    for place, letter in _bare(text):
        depth += (letter in _OPENING) - (letter in _CLOSING)
        if depth == 0:
            return text[:place], text[place + 1 :]
    raise UsageError(f"The schema {whole.strip()!r} has an unclosed parenthesis.")


def _bare(text: str) -> Iterator[tuple[int, str]]:
    """The letters outside quotes, with their positions."""
    quote, escaped = "", False
    for place, letter in enumerate(text):
        if quote:
            quote, escaped = ("" if letter == quote and not escaped else quote), letter == "\\" and not escaped
        elif letter in "\"'":
            quote = letter
        else:
            yield place, letter


def _items(text: str) -> list[str]:
    """The parts between commas, except for commas in brackets."""
    depth, start, found = 0, 0, []
    for place, letter in _bare(text):
        depth += (letter in _OPENING) - (letter in _CLOSING)
        if letter == "," and depth == 0:
            found.append(text[start:place].strip())
            start = place + 1
    return [item for item in (*found, text[start:].strip()) if item]


def _argument(item: str, whole: str) -> Argument:
    equals = next((place for place, letter in _bare(item) if letter == "="), None)
    left, default = (item, None) if equals is None else (item[:equals], item[equals + 1 :].strip())
    kind, _, name = left.strip().rpartition(" ")
    if not kind or not name.isidentifier():
        raise UsageError(
            f"The argument {item!r} of the schema {whole.strip()!r} needs a type and a name, for example 'float alpha'."
        )
    made = Argument(name, _plain(kind, whole), has_default=default is not None)
    return made if default is None else replace(made, default=_default(default, made))


def _result(item: str, whole: str) -> Argument:
    kind, _, name = item.rpartition(" ") if re.search(r"[\w\])?] \w+$", item) else (item, "", "")
    return Argument(name, _plain(kind, whole))


def _plain(kind: str, whole: str) -> str:
    """A type without aliases, and with int for SymInt."""
    bare = _ALIAS.sub("", kind).strip()
    found = _TYPE.match(bare)
    if found is None:
        raise UsageError(f"The schema {whole.strip()!r} has the type {kind!r}, which torch does not have.")
    base = {"SymInt": "int", "SymBool": "bool", "SymFloat": "float", "number": "Scalar"}.get(found["base"])
    return (base or found["base"]) + found["marks"]


def _default(text: str, argument: Argument) -> Any:
    """A default as a Python value; one number for a list of fixed length is repeated for each element."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = float(text) if text.lstrip("-") in ("inf", "nan") else text
    length = re.search(r"\[(\d+)\]", argument.type)
    if length and isinstance(value, int | float):
        value = [value] * int(length[1])
    if argument.base == "float" and value is not None:
        value = [float(one) for one in value] if isinstance(value, list) else float(value)
    return value
