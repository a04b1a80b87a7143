"""Operator schemas as plain values: ONNX's own from `onnx.defs`, ONNX Runtime's from a table in this package.

A look-up asks `onnx.defs` for one operator; only a list of all names scans the registry.  ONNX Runtime is never
imported: `data/ort_schemas.json` holds its `com.microsoft` operators and those of the default domain that onnx does not
have (`tests/make_ort_schemas.py` writes the table).
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import onnx
from onnx import AttributeProto, defs

VARIADIC = 2**31 - 1
"""The maximum number of inputs or outputs of an operator whose last formal is variadic."""

MICROSOFT = "com.microsoft"

_LISTS = ("seq(tensor", "optional(")
# Inputs that had another name when they were attributes: operator -> input name -> attribute name.
_ATTRIBUTE_NAMES = {("", "Pad"): {"constant_value": "value"}}


class FormalParameter(NamedTuple):
    """A formal input or output."""

    name: str
    """Its name."""
    type: str
    """A type variable ("T") or a type ("tensor(int64)")."""
    optional: bool
    """It may be omitted."""
    variadic: bool
    """It represents any number of tensors."""
    homogeneous: bool
    """All of these have one type."""


class AttributeSpec(NamedTuple):
    """A formal attribute."""

    name: str
    """Its name."""
    type: int
    """A value of `onnx.AttributeProto.AttributeType`."""
    required: bool
    """It is required."""
    default: AttributeProto | None
    """Its default; None without one."""

    @property
    def value(self) -> Any:
        """The default as a Python value (strings as `bytes`, as `onnx.helper` gives them), or None."""
        return None if self.default is None else onnx.helper.get_attribute_value(self.default)


@dataclass(frozen=True, slots=True)
class Schema:
    """One version of one operator."""

    domain: str
    """"" for ONNX's own."""
    name: str
    """Without the domain."""
    since_version: int
    """The first opset with this version."""
    inputs: tuple[FormalParameter, ...]
    """In order."""
    outputs: tuple[FormalParameter, ...]
    """In order."""
    min_inputs: int
    """The fewest inputs."""
    max_inputs: int
    """The most inputs."""
    min_outputs: int
    """The fewest outputs."""
    max_outputs: int
    """The most outputs."""
    attributes: Mapping[str, AttributeSpec] = field(hash=False)
    """By name."""
    types: Mapping[str, frozenset[str]] = field(hash=False)
    """The allowed types of each type variable."""
    deprecated: bool
    """This version removes the operator."""

    def input_at(self, index: int) -> FormalParameter | None:
        """The formal of the `index`-th input; a variadic formal represents all that follow; None after the last."""
        return _formal_at(self.inputs, index)

    def output_at(self, index: int) -> FormalParameter | None:
        """The formal of the `index`-th output, as `input_at`."""
        return _formal_at(self.outputs, index)

    def allowed(self, formal: FormalParameter) -> frozenset[str]:
        """The type strings that `formal` may have, e.g. `{"tensor(float)", "tensor(float16)"}`."""
        return self.types.get(formal.type) or frozenset((formal.type,))


def normalize_domain(domain: str) -> str:
    """`domain` as models spell it: the default domain is the empty string."""
    return "" if domain == "ai.onnx" else domain


def display_domain(domain: str) -> str:
    """`domain` as people read it: the default domain is `ai.onnx`."""
    return domain or "ai.onnx"


@cache
def schema(domain: str, name: str, opset: int | None = None) -> Schema | None:
    """The newest version of an operator that is not newer than `opset` (None: the newest of all).

    In the default domain ONNX's own operators come first, then those that only ONNX Runtime has, at all or at such an
    old opset (LayerNormalization below 17).  None if the operator does not exist, or not at `opset`; `history`
    distinguishes the two.
    """
    domain = normalize_domain(domain)
    if domain != MICROSOFT and defs.has(name, domain):
        found = _from_onnx(domain, name, opset)
        if found is not None:
            return found
    versions = _from_ort(domain, name)
    fitting = [one for one in versions if opset is None or one.since_version <= opset]
    return fitting[-1] if fitting else None


@cache
def only_ort_knows(domain: str, name: str, opset: int) -> bool:
    """Whether an operator of the default domain is ONNX Runtime's own at this opset; onnx.checker then rejects it."""
    if normalize_domain(domain) or schema("", name, opset) is None:
        return False
    return not defs.has(name) or _from_onnx("", name, opset) is None


@cache
def history(domain: str, name: str) -> tuple[Schema, ...]:
    """All versions of an operator, oldest first; empty for an unknown operator."""
    found: list[Schema] = []
    version = schema(domain, name)
    while version is not None:
        found.append(version)
        version = schema(domain, name, version.since_version - 1)
    return tuple(reversed(found))


@cache
def is_meaningless(domain: str, name: str, attribute: str) -> bool:
    """Whether a known operator has an attribute in none of its versions, so that nothing reads it: `epsion`."""
    versions = history(domain, name)
    return bool(versions) and not any(attribute in version.attributes for version in versions)


@cache
def handles_lists(domain: str, name: str) -> bool:
    """Whether some version has an input or output that can only be a sequence of tensors, or an optional."""
    formals = [(version, one) for version in history(domain, name) for one in (*version.inputs, *version.outputs)]
    return any(all(kind.startswith(_LISTS) for kind in version.allowed(one)) for version, one in formals)


@cache
def operators(domain: str) -> tuple[str, ...]:
    """The names of all operators of a domain, sorted, deprecated ones included."""
    domain = normalize_domain(domain)
    names = {name for where, name in _onnx_names() if where == domain}
    names.update(name for where, name in _ort_entries() if where == domain)
    return tuple(sorted(names))


@cache
def domains() -> tuple[str, ...]:
    """All domains whose operators are known, sorted; the default domain (`""`) comes first."""
    return tuple(sorted({domain for domain, _ in _onnx_names()} | {domain for domain, _ in _ort_entries()}))


def knows_domain(domain: str) -> bool:
    """Whether every operator of this domain is in the tables, so that any other name is a mistake."""
    return normalize_domain(domain) in domains()


@cache
def attributes_become_inputs(domain: str, name: str) -> Mapping[str, int]:
    """Parameters that are an attribute in one version and an input in another: attribute name -> index of the input.

    The index is that of the newest version; names are compared without regard to case (TopK's `k` and `K`).
    ReduceMean gives `{"axes": 1}`, Clip `{"min": 1, "max": 2}`.
    """
    versions = history(domain, name)
    if not versions:
        return MappingProxyType({})
    attributes = {key.lower(): key for version in versions for key in version.attributes if not _has_both(version, key)}
    found = {}
    for index, formal in enumerate(versions[-1].inputs):
        attribute = attributes.get(attribute_name(domain, name, formal.name).lower())
        if attribute is not None:
            found[attribute] = index
    return MappingProxyType(found)


def attribute_name(domain: str, name: str, formal: str) -> str:
    """The name, apart from case, that the input `formal` of an operator has as an attribute."""
    return _ATTRIBUTE_NAMES.get((normalize_domain(domain), name), {}).get(formal, formal)


def _has_both(version: Schema, attribute: str) -> bool:
    return any(formal.name == attribute for formal in version.inputs)


def _formal_at(formals: Sequence[FormalParameter], index: int) -> FormalParameter | None:
    if index < len(formals):
        return formals[index]
    return formals[-1] if formals and formals[-1].variadic else None


@cache
def _onnx_names() -> frozenset[tuple[str, str]]:
    return frozenset((one.domain, one.name) for one in defs.get_all_schemas())


def _from_onnx(domain: str, name: str, opset: int | None) -> Schema | None:
    try:
        found = defs.get_schema(name, domain)
        if opset is not None and opset < found.since_version:  # else it may be larger than onnx counts
            found = defs.get_schema(name, max(opset, 0), domain)
    except defs.SchemaError:  # the operator is younger than `opset`
        return None
    return _converted(domain, name, found.since_version)


@cache
def _converted(domain: str, name: str, since_version: int) -> Schema:
    """One version as a `Schema`; cached apart, so that all opsets which share a version share the object."""
    return converted(defs.get_schema(name, since_version, domain), domain)


def converted(found: defs.OpSchema, domain: str) -> Schema:
    """One of onnx's own schemas as a `Schema`."""
    types = {one.type_param_str: frozenset(one.allowed_type_strs) for one in found.type_constraints}
    return Schema(
        domain=domain,
        name=found.name,
        since_version=found.since_version,
        inputs=tuple(_converted_formal(one) for one in found.inputs),
        outputs=tuple(_converted_formal(one) for one in found.outputs),
        min_inputs=found.min_input,
        max_inputs=found.max_input,
        min_outputs=found.min_output,
        max_outputs=found.max_output,
        attributes=MappingProxyType({key: _converted_attribute(one) for key, one in found.attributes.items()}),
        types=MappingProxyType(types),
        deprecated=found.deprecated,
    )


def _converted_formal(one: defs.OpSchema.FormalParameter) -> FormalParameter:
    option = defs.OpSchema.FormalParameterOption
    return FormalParameter(
        one.name,
        one.type_str,
        one.option == option.Optional,
        variadic=one.option == option.Variadic,
        homogeneous=one.is_homogeneous,
    )


def _converted_attribute(one: defs.OpSchema.Attribute) -> AttributeSpec:
    default = one.default_value
    kind = int(cast(Any, one.type))  # an IntEnum, although onnx's stub has another type
    return AttributeSpec(one.name, kind, one.required, default if default.type else None)


def ort_version() -> str:
    """The version of ONNX Runtime from which the table in this package was made."""
    return str(_ort_table()["onnxruntime"])


@cache
def _ort_table() -> dict[str, Any]:
    text = files("surgeon.ops").joinpath("data/ort_schemas.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


@cache
def _ort_entries() -> Mapping[tuple[str, str], list[dict[str, Any]]]:
    entries: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in _ort_table()["operators"]:
        entries.setdefault((entry["domain"], entry["name"]), []).append(entry)
    return entries


@cache
def _from_ort(domain: str, name: str) -> tuple[Schema, ...]:
    entries = _ort_entries().get((domain, name), [])
    return tuple(_decoded(entry) for entry in sorted(entries, key=lambda one: int(one["since"])))


def _decoded(entry: dict[str, Any]) -> Schema:
    type_sets = _ort_table()["type_sets"]
    attributes = {}
    for name, (kind, required, default) in entry["attributes"].items():
        proto = None if default is None else AttributeProto.FromString(base64.b64decode(default))
        attributes[name] = AttributeSpec(name, kind, bool(required), proto)
    least_in, most_in, least_out, most_out = entry["arity"]
    return Schema(
        domain=entry["domain"],
        name=entry["name"],
        since_version=entry["since"],
        inputs=tuple(_decoded_formal(*one) for one in entry["inputs"]),
        outputs=tuple(_decoded_formal(*one) for one in entry["outputs"]),
        min_inputs=least_in,
        max_inputs=most_in,
        min_outputs=least_out,
        max_outputs=most_out,
        attributes=MappingProxyType(attributes),
        types=MappingProxyType({name: frozenset(type_sets[index]) for name, index in entry["types"].items()}),
        deprecated=bool(entry["deprecated"]),
    )


def _decoded_formal(name: str, kind: str, marks: str) -> FormalParameter:
    """A formal of the table; `marks` holds `?` for optional, `*` for variadic, `~` for heterogeneous."""
    return FormalParameter(name, kind, "?" in marks, variadic="*" in marks, homogeneous="~" not in marks)


def variables(version: Schema, inputs: Iterable[int | None], outputs: Iterable[int | None] = ()) -> dict[str, int]:
    """The dtypes of a node's tensors by type variable, or by formal if its type is fixed; unknown ones are omitted."""
    found: dict[str, int] = {}
    for dtypes, formal_at in ((inputs, version.input_at), (outputs, version.output_at)):
        for place, dtype in enumerate(dtypes):
            formal = formal_at(place)
            if dtype and formal is not None and formal.homogeneous:
                found.setdefault(formal.type if formal.type in version.types else formal.name, dtype)
    return found
