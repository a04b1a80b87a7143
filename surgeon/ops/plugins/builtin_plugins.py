"""TensorRT's plugins, and the check of a node against the declaration of its plugin.

`data/tensorrt_plugins.json` has the plugins that TensorRT 7.0 to 11.1 register themselves.  A node selects one by its
op_type and the string attribute `plugin_version` (default "1").  TensorRT ignores the node's domain; ONNX Runtime's
TensorRT provider has plugins in the domain `trt.plugins`.  TensorRT ignores attributes that a plugin does not declare,
and fails if one is missing; the check reports both.
"""

import json
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import onnx
from onnx import AttributeProto

from surgeon.ops.plugins.plugin_declaration import VERSION, Field, Plugin, Port, own_plugins
from surgeon.ops.schemas.attribute_values import element_type, type_string, words
from surgeon.text import close_matches

DOMAIN = "trt.plugins"
DOMAINS = frozenset((DOMAIN, "TRT"))  # some exporters write the second
ALIKE = 0.85  # similarity from which a name is a misspelt one of TensorRT's
NAMESPACE, SHAPE_INPUTS = "plugin_namespace", "tensorrt_plugin_shape_input_indices"
INT32 = 2**31
_ONE = {"int": AttributeProto.INT, "float": AttributeProto.FLOAT, "string": AttributeProto.STRING}
_MANY = {"int": AttributeProto.INTS, "float": AttributeProto.FLOATS, "weights": AttributeProto.TENSOR}


def plugins() -> Mapping[str, tuple[Plugin, ...]]:
    """All plugins by name, the versions of each oldest first, including declared ones."""
    own: dict[str, tuple[Plugin, ...]] = {}
    for one in own_plugins():
        others = own.get(one.name, _tabled().get(one.name, ()))
        own[one.name] = (*(other for other in others if other.version != one.version), one)
    return ChainMap(own, _tabled()) if own else _tabled()  # type: ignore[arg-type]  # it is only read


@cache
def _tabled() -> Mapping[str, tuple[Plugin, ...]]:
    """The plugins of the table."""
    found: dict[str, list[Plugin]] = {}
    for row in _table()["plugins"]:
        found.setdefault(row["name"], []).append(_decoded(row))
    return {name: tuple(sorted(versions, key=lambda one: int(one.version))) for name, versions in found.items()}


class Plugins:
    """The plugins as the ops of a target: a `surgeon.target_registry.OpSet`."""

    def has(self, domain: str, op: str) -> bool:
        """Whether a node of this op is meant to be a plugin."""
        return names_plugin(domain, op)

    def check(
        self, node: onnx.NodeProto, opset: int, dtype_of: Callable[[str], int | None], in_function: bool
    ) -> list[str]:
        """Every violation of a node against its plugin, one sentence each."""
        return check_plugin(node, dtype_of, in_function)

    def learn(self, node: onnx.NodeProto, opset: int, known: dict[str, int | None]) -> None:
        """Add to `known` the dtypes of a plugin's outputs that its declaration or an input determines."""
        learn_plugin_dtypes(node, known)


def names_plugin(domain: str, name: str) -> bool:
    """Whether a node of this op is meant to be a plugin: by its domain, or by a name that no op of ONNX has."""
    if domain in DOMAINS or domain not in ("", "ai.onnx"):
        return domain in DOMAINS
    return any(not one.removed for one in plugins().get(name, ())) and not onnx.defs.has(name)


def plugin_of(node: onnx.NodeProto) -> Plugin | None:
    """The plugin of a node, in any domain; None if there is none of this name and version."""
    version = _string(node, VERSION) or "1"
    return next((one for one in plugins().get(node.op_type, ()) if one.version == version), None)


def check_plugin(node: onnx.NodeProto, dtype_of: Callable[[str], int | None], in_function: bool = False) -> list[str]:
    """Every violation of a node against its plugin, one sentence each.  As `node_check.check_node`."""
    found = plugin_of(node)
    if found is None:
        return _unknown(node)
    complaints = []
    if found.removed:
        complaints.append(f"{_title(found)} was removed in TensorRT {found.removed}{_instead(found)}.")
    if found.is_declared:
        complaints += _arity("input", found, node.input, found.inputs)
        complaints += _arity("output", found, node.output, found.outputs)
        complaints += _attributes(found, node, in_function)
        complaints += _types(found, node, dtype_of)
    if _string(node, NAMESPACE) != found.namespace:
        where = f"the namespace {found.namespace!r}" if found.namespace else "the default namespace"
        whose = "" if found in own_plugins() else "TensorRT's built-in plugin "
        complaints.append(f'{whose}{found.name} is in {where}; write {NAMESPACE}="{found.namespace}".')
    return complaints


def check_notes(ops: Iterable[str]) -> Iterator[str]:
    """The checks of plugins in the default domain among these ops, as sentences without a full stop."""
    for name in dict.fromkeys(op for op in ops if names_plugin("", op)):
        is_known = any(one.is_declared for one in plugins()[name])
        how = "compared with its declaration" if is_known else "not checked, because its declaration lists none"
        yield f"inputs, outputs and attributes of the plugin {name} are {how}, and onnx.checker skips it"


def advice(node: onnx.NodeProto) -> str:
    """The message about a plugin that is deprecated, but still works; empty for all others."""
    found = plugin_of(node)
    if found is None or found.removed or not found.deprecated:
        return ""
    return f"{_title(found)} is deprecated since TensorRT {found.deprecated}{_instead(found)}."


def learn_plugin_dtypes(node: onnx.NodeProto, known: dict[str, int | None]) -> None:
    """Add to `known` (`TensorProto.DataType` by tensor) the output dtypes that the plugin or an input determines."""
    found = plugin_of(node)
    if found is None:
        return
    given = {port.name: known.get(name) for port, name in zip(found.inputs, node.input, strict=False)}
    for port, name in zip(found.outputs, node.output, strict=False):
        only = element_type(f"tensor({port.dtypes[0]})") if len(port.dtypes) == 1 else None
        known[name] = known.get(name) or only or given.get(port.like)


def _title(found: Plugin) -> str:
    return f"The plugin {found.name}, version {found.version},"


def _instead(found: Plugin) -> str:
    return f"; use {found.instead}" if found.instead else ""


def _unknown(node: onnx.NodeProto) -> list[str]:
    """The message about an unknown name or version; empty for a name that is probably the user's own."""
    versions = plugins().get(node.op_type, ())
    if versions:
        numbers = " and ".join(one.version for one in versions if not one.removed) or "no supported version"
        given = _string(node, VERSION) or "1"
        return [f"TensorRT has no version {given!r} of the plugin {node.op_type}; set plugin_version to {numbers}."]
    near = close_matches(node.op_type, plugins(), 1, ALIKE)
    return [f"TensorRT has no plugin {node.op_type!r}; did you mean {near[0]!r}?"] if near else []


def _arity(kind: str, found: Plugin, names: Sequence[str], ports: Sequence[Port]) -> Iterator[str]:
    least = max((place for place, port in enumerate(ports, 1) if not port.optional), default=0)
    if not least <= len(names) <= len(ports):
        listed = ", ".join(f"{port.name} (optional)" if port.optional else port.name for port in ports)
        bound = str(least) if least == len(ports) else f"{least} to {len(ports)}"
        yield f"{found.name} has {bound} {kind}{'s' * (bound != '1')} ({listed}), but this node has {len(names)}."
    for port, name in zip(ports, names, strict=False):
        if kind == "input" and not name and not port.optional:
            yield f"The input '{port.name}' of {found.name} is required, but this node does not have it."


def _attributes(found: Plugin, node: onnx.NodeProto, in_function: bool) -> Iterator[str]:
    given = set()
    for item in node.attribute:
        if item.name in given:
            yield f"This node has the attribute '{item.name}' of {found.name} twice."
        given.add(item.name)
        spec = found.attributes.get(item.name)
        if item.ref_attr_name:
            if not in_function:
                yield (
                    f"The attribute '{item.name}' of {found.name} refers to '{item.ref_attr_name}' outside a function."
                )
        elif item.name in (VERSION, NAMESPACE):
            if item.type != AttributeProto.STRING:
                yield f"The attribute '{item.name}' of {found.name} must be a string, not {words(item.type)}."
        elif item.name != SHAPE_INPUTS:
            yield from _value(found, spec, item)
    missing = [repr(name) for name, spec in found.attributes.items() if spec.required and name not in given]
    if missing:
        listed = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        yield f"{found.name} needs the attribute{'s' * (len(missing) > 1)} {listed}."


def _value(found: Plugin, spec: Field | None, item: AttributeProto) -> Iterator[str]:
    """The violations of one attribute."""
    if spec is None:
        near = close_matches(item.name, found.attributes)
        hint = f"the nearest are {', '.join(near)}" if near else "remove it"
        yield f"{found.name} has no attribute '{item.name}', so TensorRT would ignore it; {hint}."
        return
    wanted = _ONE[spec.kind] if spec.length == 1 and spec.kind in _ONE else _MANY[spec.kind]
    others = {wanted, AttributeProto.TENSOR, AttributeProto.FLOATS} if wanted == AttributeProto.TENSOR else {wanted}
    if wanted == AttributeProto.FLOATS:
        others.add(AttributeProto.TENSOR)
    large = [one for one in (item.i, *item.ints) if not -INT32 <= one < INT32]
    if item.type not in others:
        yield f"The attribute '{spec.name}' of {found.name} must be {words(wanted)}, not {words(item.type)}."
    elif spec.length > 1 and item.type == AttributeProto.INTS and len(item.ints) != spec.length:
        yield f"The attribute '{spec.name}' of {found.name} must have {spec.length} numbers, not {len(item.ints)}."
    elif large:
        problem = f"is {large[0]}, but TensorRT passes 32-bit integers to plugins"
        yield f"The attribute '{spec.name}' of {found.name} {problem}."
    elif spec.allowed and item.type == AttributeProto.INT and item.i not in spec.allowed:
        choices = " or ".join(map(str, spec.allowed))
        yield f"The attribute '{spec.name}' of {found.name} is {item.i}, but must be {choices}."


def _types(found: Plugin, node: onnx.NodeProto, dtype_of: Callable[[str], int | None]) -> Iterator[str]:
    seen: dict[str, tuple[str, str]] = {}
    for port, name in (
        *zip(found.inputs, node.input, strict=False),
        *zip(found.outputs, node.output, strict=False),
    ):
        dtype = dtype_of(name) if name else None
        if not dtype:
            continue
        shown = type_string(dtype)[7:-1]
        seen[port.name] = shown, name
        if port.dtypes and shown not in port.dtypes:
            yield f"'{port.name}' of {found.name} is {shown} ('{name}'), but must be {' or '.join(port.dtypes)}."
        first, first_name = seen.get(port.like, (shown, name))
        if first != shown:
            yield f"'{first_name}' and '{name}' of {found.name} must have the same dtype, but are {first} and {shown}."


def _string(node: onnx.NodeProto, name: str) -> str:
    found = next((item for item in node.attribute if item.name == name), None)
    return "" if found is None else found.s.decode(errors="replace")


@cache
def _table() -> dict[str, Any]:
    text = files("surgeon.targets").joinpath("data/tensorrt_plugins.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


def _decoded(row: dict[str, Any]) -> Plugin:
    is_declared = row["inputs"] is not None
    fields = {
        name: Field(name, kind, length, required=required, allowed=tuple(allowed[0]) if allowed else ())
        for name, (kind, length, required, *allowed) in (row["attributes"] or {}).items()
    }
    return Plugin(
        row["name"],
        row["version"],
        row["since"],
        deprecated=row.get("deprecated", ""),
        removed=row.get("removed", ""),
        instead=row.get("instead", ""),
        inputs=tuple(_port(*one) for one in row["inputs"] or ()),
        outputs=tuple(_port(*one) for one in row["outputs"] or ()),
        attributes=fields,
        is_declared=is_declared,
    )


def _port(name: str, dtypes: str | list[str], marks: str = "") -> Port:
    """A port of the table: its dtypes, or "=other" for those of another port; `?` marks an optional one."""
    like = dtypes[1:] if isinstance(dtypes, str) else ""
    return Port(name, () if isinstance(dtypes, str) else tuple(dtypes), like, "?" in marks)
