"""Shapes of the outputs of a declared plugin."""

from collections.abc import Sequence

from onnx import AttributeProto

from surgeon.ir.scope import split_op
from surgeon.ops.plugins.plugin_declaration import VERSION, Plugin, Port, own_plugins
from surgeon.ops.schemas.attribute_values import element_type
from surgeon.shapes.algebra.size_expressions import Size, parse_size, substitute, symbols
from surgeon.shapes.tensor_types import NodeView, PartialType, require


def declared(site: NodeView) -> Sequence[PartialType]:
    """The declared types of a plugin node's outputs; nothing for any other op.

    A name is the size of an input on that axis, or the value of an attribute.
    """
    known = own_plugins()
    name = split_op(site.node.op)[1]
    found = next((one for one in known if one.name == name and one.version == _version(site)), None)
    if found is None:
        return []
    sizes = _sizes(site, found)
    return [
        PartialType(_dtype(site, found, port), _shape(found.shapes.get(port.name), sizes)) for port in found.outputs
    ]


def _version(site: NodeView) -> str:
    given = site.resolved(VERSION)
    return "1" if given is None else given.s.decode(errors="replace")


def _sizes(site: NodeView, plugin: Plugin) -> dict[str, Size]:
    """The values of names in the shapes of a declaration."""
    sizes: dict[str, Size] = {}
    for place, port in enumerate(plugin.inputs):
        shape, declared = site.shape(place), plugin.shapes.get(port.name)
        if shape is None or declared is None:
            continue
        require(len(declared) == len(shape))
        sizes |= {name: size for name, size in zip(declared, shape, strict=True) if name.isidentifier()}
    for name, field in plugin.attributes.items():
        given = site.resolved(name) if field.kind == "int" and field.length == 1 else None
        if given is not None and given.type == AttributeProto.INT:
            sizes[name] = given.i
    return sizes


def _shape(declared: Sequence[str] | None, sizes: dict[str, Size]) -> list[Size | None] | None:
    if declared is None:
        return None
    found = [parse_size(text) for text in declared]
    return [substitute(size, sizes) if symbols(size) <= sizes.keys() else None for size in found]


def _dtype(site: NodeView, plugin: Plugin, port: Port) -> int | None:
    if len(port.dtypes) == 1:
        return element_type(f"tensor({port.dtypes[0]})")
    places = [place for place, one in enumerate(plugin.inputs) if one.name == port.like]
    return site.dtype(places[0]) if places else None
