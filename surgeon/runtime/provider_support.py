"""The kernels of each execution provider: by op, opset and dtypes.

The tables belong to the targets that have the providers.  `tests/make_kernel_tables.py` writes
`surgeon/targets/data/kernels_*.json`: the table of the CPU provider from the installed ONNX Runtime, the others from
documents that each table names.  ONNX Runtime is imported only if its version differs from that of the CPU table, or if
another provider may be installed.  Its own list then replaces the table.

If no provider has a kernel for a node, ONNX Runtime runs a function body instead (`bodies`, measured by loading models
of one node).  The CPU provider casts float16 to float around a node that has only a float kernel.  No rule writes a
node whose body is imprecise (quirks.IMPRECISE_GROUP_NORM).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, Self

from onnx import TensorProto, defs

from surgeon.errors import UsageError
from surgeon.ops.schemas import Schema, schema, type_string
from surgeon.printed_commands import in_floats
from surgeon.runtime.provider_kernels import listed
from surgeon.runtime.quirks import IMPRECISE_BODIES
from surgeon.target_registry import ANY_FLOAT, Provider, beside, provider
from surgeon.versions import RUNTIMES, version

CPU = "cpu"
FLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE
NEWEST = 2**31 - 1
FLOATS = frozenset({"float", "float16", "double", "bfloat16"})

Dtypes = Mapping[str, int]
"""TensorProto.DataType by type variable of the op's schema ("T"), or by name of an input or output of fixed type."""


class Kernel(NamedTuple):
    """One kernel of an op."""

    first: int
    """First version of the op that it implements."""
    last: int
    """Last version."""
    types: Mapping[str, frozenset[str]]
    """Names of dtypes ("float") that each type variable may have."""

    def takes(self, version: Schema, is_exact: bool) -> bool:
        """Whether the kernel implements this version of its op, by version number and type variables.

        is_exact: a kernel without a last version implements only its first, as in ONNX Runtime.
        """
        since = version.since_version
        if not (self.first == since if is_exact and self.last == NEWEST else self.first <= since <= self.last):
            return False
        formals = {formal.name for formal in (*version.inputs, *version.outputs)}
        return self.types.keys() <= version.types.keys() | formals | {ANY_FLOAT}

    def fits(self, types: Mapping[str, str]) -> bool:
        """Whether the kernel accepts these types; a type variable that is not given may have any type."""
        for name, allowed in self.types.items():
            if name == ANY_FLOAT:
                if not FLOATS.intersection(types.values()) <= allowed:
                    return False
            elif types.get(name) is not None and types[name] not in allowed:
                return False
        return True


@dataclass(frozen=True, slots=True)
class KernelTable:
    """The kernels of one provider."""

    made_from: str
    """The version of ONNX Runtime, or the document, that the table comes from."""
    is_exact: bool
    """Whether it lists each version of an op separately (see `Kernel.takes`).  A document lacks newer versions."""
    kernels: Mapping[tuple[str, str], tuple[Kernel, ...]]
    """Kernels by (domain, op)."""
    bodies: Mapping[tuple[str, str], tuple[tuple[int, int, frozenset[str]], ...]] = field(default_factory=dict)
    """By (domain, op): ranges of opsets, and the dtypes in which a function body runs without a kernel."""
    measured: frozenset[tuple[str, str]] = frozenset()
    """Ops whose body was tried."""

    def has_kernel(self, version: Schema, types: Mapping[str, str]) -> bool:
        """Whether there is a kernel for this version of an op and these types."""
        kernels = self.kernels.get((version.domain, version.name), ())
        return any(kernel.takes(version, self.is_exact) and kernel.fits(types) for kernel in kernels)

    def body(self, version: Schema, opset: int) -> frozenset[str] | None:
        """The types in which a function body runs in place of a node; None without one, or if not measured."""
        rows = self.bodies.get((version.domain, version.name), ())
        return next((types for first, last, types in rows if first <= opset <= last), None)


class ProviderSupport:
    """The nodes that one execution provider can run.  See `ProviderSupport.of`."""

    def __init__(self, name: str, table: KernelTable) -> None:
        known = provider(name) or Provider(name, name, dict, is_of_ort=True, runs_bodies=True)
        self.name, self.title, self.full_title = name, known.title, known.full_title
        self._runs_bodies = known.runs_bodies
        self._table = table
        self._runs: dict[tuple[Any, ...], bool] = {}

    @classmethod
    @cache
    def of(cls, name: str) -> Self:
        """The support of a provider, by its short name: from a target's table, or from the installed ONNX Runtime.

        Raises UsageError for an unknown provider.
        """
        short = name.lower().removesuffix("executionprovider")
        known = provider(short)
        table = None
        if known is None or (known.is_of_ort and (short != CPU or version(*RUNTIMES) != shipped_version())):
            table = _live(short)
        if table is None and known is not None:
            table = _shipped(short)
        if table is None:
            names = ", ".join(one.name for one in beside(short))
            raise UsageError(f"Unknown execution provider {name!r}. Choose one of {names}.")
        return cls(short, table)

    def runs(self, domain: str, op: str, opset: int, dtypes: Dtypes) -> bool:
        """Whether the provider can run a node; opset: the imported version of the op's domain.

        Unknown ops count as supported.  Dtypes that are not given are not checked.
        """
        key = (domain, op, opset, *dtypes.items())
        if key not in self._runs:
            self._runs[key] = self._can_run(domain, op, opset, dtypes)
        return self._runs[key]

    def computes(self, domain: str, op: str, opset: int, dtypes: Dtypes) -> bool:
        """Whether it computes the node in these dtypes, without a cast to float32 and back."""
        if self.name != CPU or "float16" not in _types(dtypes).values() or (domain, op) == ("", "Constant"):
            return self.runs(domain, op, opset, dtypes)
        return self._has_kernel(domain, op, opset, dtypes)

    def allows(self, domain: str, op: str, opset: int, dtypes: Dtypes) -> bool:
        """Whether a rule may write a node: the provider can run it, without an imprecise function body."""
        if (domain, op) in IMPRECISE_BODIES and not self._has_kernel(domain, op, opset, dtypes):
            return False
        return self.runs(domain, op, opset, dtypes)

    def missing_reason(
        self, domain: str, op: str, opset: int, dtypes: Dtypes, among: Collection[Provider] | None = None
    ) -> str:
        """Why a rule may not write a node for this provider, as a clause with advice; empty if it may.

        among: providers to suggest instead, by default the others of its target.
        """
        asked = domain, op, opset, dtypes
        if self.allows(*asked):
            return ""
        kinds = dict.fromkeys(_types(dtypes).values())
        named = [kind for kind in kinds if kind in FLOATS] or list(kinds)
        what = f"{domain or 'ai.onnx'}::{op}{' in ' if named else ''}{' and '.join(named)}"
        known = self.others() if among is None else [one for one in among if one.name != self.name]
        others = [one.name for one in known if ProviderSupport(one.name, _shipped(one.name)).allows(*asked)]
        hint = f" (--ep {' or '.join(others)} has one)" if others else ""
        narrow = {name: FLOAT if dtype == DOUBLE else dtype for name, dtype in dtypes.items()}
        if not others and narrow != dtypes and self.allows(domain, op, opset, narrow):
            hint = f", but it has one in float32 ({in_floats()})"
        at = "" if domain else f" at opset {opset}"
        return f"{self.full_title} has no kernel for {what}{at}{hint}"

    def others(self) -> list[Provider]:
        """The providers that may be chosen instead of this one."""
        return [one for one in beside(self.name) if one.name != self.name]

    def next_supported_opset(self, domain: str, op: str, opset: int, dtypes: Dtypes) -> int | None:
        """The next opset of the default domain at which the provider allows the op; None if there is none."""
        newest = schema(domain, op)
        if domain or newest is None:
            return None
        later = range(opset + 1, newest.since_version + 1)
        there = (number for number in later if schema(domain, op, number) is not None)
        return next((number for number in there if self.allows(domain, op, number, dtypes)), None)

    def _has_kernel(self, domain: str, op: str, opset: int, dtypes: Dtypes) -> bool:
        version = schema(domain, op, opset)
        return version is not None and self._table.has_kernel(version, _types(dtypes))

    def _can_run(self, domain: str, op: str, opset: int, dtypes: Dtypes) -> bool:
        version = schema(domain, op, opset)
        if version is None or (op == "Constant" and not domain):  # a constant is an initializer once it is loaded
            return True
        types = _types(dtypes)
        if any(f"tensor({kind})" not in version.types[name] for name, kind in types.items() if name in version.types):
            return False
        if self._table.has_kernel(version, types):
            return True
        if self.name != CPU:
            return self._runs_bodies and self._runs_body(version, types, opset)
        body = self._table.body(version, opset)
        if body is not None:
            return body.issuperset(FLOATS.intersection(types.values()))
        if (domain, op) not in self._table.measured and _has_body(version):
            return "bfloat16" not in types.values()  # for which hardly any of a body's nodes has a kernel
        cast = {name: "float" if kind == "float16" else kind for name, kind in types.items()}
        return cast != types and self._table.has_kernel(version, cast)

    def _runs_body(self, version: Schema, types: Mapping[str, str], opset: int) -> bool:
        """Whether a provider other than the CPU's runs a function body, if no provider has a kernel for the node.

        If nothing was measured for this provider, it runs a body that loads on the CPU if it has a kernel of Mul in
        these dtypes, because the nodes of bodies are similar.
        """
        kinds = FLOATS.intersection(types.values())
        if (version.domain, version.name) in self._table.measured and "double" not in kinds:
            body = self._table.body(version, opset)
            return body is not None and kinds <= body
        table, multiply = _shipped(CPU), schema("", "Mul", opset)
        if table.has_kernel(version, types) or multiply is None:
            return False
        if (version.domain, version.name) not in table.measured and _has_body(version):
            return True
        if not table.body(version, opset):
            return False
        return all(self._table.has_kernel(multiply, {"T": kind}) for kind in kinds)


def shipped_version() -> str:
    """The version of ONNX Runtime that the table of the CPU provider comes from."""
    return _shipped(CPU).made_from


def parse_table(content: Mapping[str, Any]) -> KernelTable:
    """A table from the JSON of `tests/make_kernel_tables.py`."""
    sets = [frozenset(names) for names in content["type_sets"]]
    kernels: dict[tuple[str, str], list[Kernel]] = {}
    for domain, op, first, last, types in content["kernels"]:
        named = dict(zip(types, map(sets.__getitem__, types.values()), strict=True))  # no call for each of 1,440 rows
        kernels.setdefault((domain, op), []).append(Kernel(first, last or NEWEST, named))
    bodies: dict[tuple[str, str], list[tuple[int, int, frozenset[str]]]] = {}
    for domain, op, first, last, number in content.get("bodies", ()):
        bodies.setdefault((domain, op), []).append((first, last or NEWEST, sets[number]))
    return KernelTable(
        content["made_from"],
        content["exact"],
        {key: tuple(found) for key, found in kernels.items()},
        bodies={key: tuple(rows) for key, rows in bodies.items()},
        measured=frozenset((domain, op) for domain, op in content.get("measured", ())),
    )


@cache
def _shipped(name: str) -> KernelTable:
    """The table of a target's provider."""
    found = provider(name)
    if found is None:
        raise UsageError(f"No target has a provider named {name!r}.")
    return parse_table(found.table())


def _live(name: str) -> KernelTable | None:
    """The kernels that the installed ONNX Runtime lists for a provider; None if it lists none."""
    found = listed(name)
    if found is None:
        return None
    kernels: dict[tuple[str, str], list[Kernel]] = {}
    for domain, op, first, last, types in found.rows:
        allowed = {key: frozenset(kind[7:-1] for kind in kinds) for key, kinds in types.items()}
        kernels.setdefault((domain, op), []).append(Kernel(first, last, allowed))
    table = KernelTable(found.version, True, {key: tuple(rows) for key, rows in kernels.items()})
    return replace(table, bodies=_shipped(CPU).bodies, measured=_shipped(CPU).measured) if name == CPU else table


def _has_body(version: Schema) -> bool:
    """Whether ONNX also defines an op as a function."""
    if version.domain or not defs.has(version.name):
        return False
    found: Any = defs.get_schema(version.name, version.since_version)  # onnx's stub lacks the second of these
    return bool(found.has_function or found.has_context_dependent_function)


def _types(dtypes: Dtypes) -> dict[str, str]:
    return {name: type_string(dtype)[7:-1] for name, dtype in dtypes.items()}
