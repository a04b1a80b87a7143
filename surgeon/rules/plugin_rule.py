"""Rules that turn a placeholder into a TensorRT plugin that the user names."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onnx import AttributeProto, helper

from surgeon.errors import UsageError, require
from surgeon.ir.index import Index
from surgeon.ir.scope import Scope, qualified_name
from surgeon.ops.builder.graph import Graph
from surgeon.ops.plugins.builtin_plugins import DOMAIN, NAMESPACE, check_plugin
from surgeon.ops.plugins.plugin_declaration import VERSION, own_plugins
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.matching.pattern import Found, Search
from surgeon.rules.rule import Rule, rule

_SPEC = re.compile(r"(?P<op>[^=]+::[^=]+)=(?P<plugin>[^:,=]+)(?::(?P<version>[^:,=]+))?(?P<fields>(?:,[^,=]+=[^,=]+)*)")


def plugin_rule(op: str, plugin: str, *, version: str | None = None, fields: Mapping[str, str] | None = None) -> Rule:
    """A rule that writes a placeholder as a TensorRT plugin, its inputs and attributes as they are.

    The node is checked against the declaration of the plugin: TensorRT's own table, or `surgeon.declare_plugin`.

    Args:
        op: the placeholder, "mylib::op".
        plugin: the plugin's name.
        version: its version; by default the declared one, else "1".
        fields: the plugin's fields by the attributes that set them, if the names differ.

    Returns:
        A rule for TensorRT, named "plugin mylib::op".

    Raises:
        UsageError: two attributes set one field, or an attribute sets the field of `version`.

    Examples:
        >>> import surgeon
        >>> surgeon.plugin_rule("mylib::scale", "MyScale", fields={"factor": "alpha"}).name
        'plugin mylib::scale'
    """
    names = dict(fields or {})
    _require_fields(plugin, names)
    domain, _, base = op.rpartition("::")
    wanted = qualified_name("" if domain == "ai.onnx" else domain, base)

    def nodes_of(index: Index, scope: Scope) -> Iterator[Found]:
        """Nodes of the placeholder."""
        for node in [node for node in scope.by_op.get(wanted, ()) if node.alive]:
            outputs = tuple(filter(None, node.outputs))
            if outputs:
                places = [name != "" for name in node.inputs]
                bound = {"tensors": VariadicBinding([name for name in node.inputs if name]), "places": (places,)}
                yield Found((node,), outputs, bound)

    def write(g: Graph, match: Match, tensors: list[Any], places: list[bool]) -> Any:
        given = iter(tensors)
        inputs = [next(given) if is_given else None for is_given in places]
        node = match.root.proto
        attributes: dict[str, Any] = {}
        for item in node.attribute:
            field = AttributeProto()
            field.CopyFrom(item)
            field.name = names.get(item.name, item.name)
            require(field.name not in attributes, f"two attributes of the node would set the field {field.name}")
            attributes[field.name] = field
        lost = [name for name in names if name not in {item.name for item in node.attribute}]
        require(not lost, f"the node has no attribute {', '.join(lost)}")
        own = {"plugin_version": version or _version(plugin), "plugin_namespace": _namespace(plugin, version)}
        planned = helper.make_node(plugin, list(node.input), list(node.output), domain=DOMAIN, **own)
        planned.attribute.extend(attributes.values())
        for complaint in check_plugin(planned, lambda _: None):
            hint = " (if the names differ, add attribute=field to --plugin)" * ("attribute" in complaint)
            require(False, f"{complaint.rstrip('.')}{hint}")
        made = g.emit(DOMAIN, plugin, inputs, attributes | own, len(node.output))
        return [tensor for tensor, name in zip(made, node.output, strict=True) if name]

    write.__doc__ = f"Replace {op} with the plugin {plugin}."
    return rule(search=Search(nodes_of, f"the model has no {op}"), target="tensorrt", name=f"plugin {op}")(write)


def plugin_rules(specs: Sequence[str]) -> list[Rule]:
    """The rules for "mylib::op=MyPlugin", "mylib::op=MyPlugin:2" or "mylib::op=MyPlugin:1,factor=alpha".

    A rewrite is refused if one of them fires nowhere.

    Raises:
        UsageError: a text has none of these forms.
    """
    made = []
    for spec in specs:
        found = _SPEC.fullmatch(spec.strip())
        if found is None:
            raise UsageError(f"Invalid plugin {spec!r}. Examples: mylib::op=MyPlugin:1, ...:1,attribute=field")
        pairs = [pair.split("=") for pair in found["fields"].split(",") if pair]
        op, plugin = found["op"].strip(), found["plugin"].strip()
        made.append(plugin_rule(op, plugin, version=found["version"], fields=dict(pairs)))
        made[-1].placeholder = op
    return made


def _require_fields(plugin: str, names: Mapping[str, str]) -> None:
    """Raise UsageError for fields that would be written twice."""
    field = next((name for name in names.values() if name in (VERSION, NAMESPACE)), None)
    if field is not None:
        raise UsageError(f"An attribute cannot set {field} of {plugin}. Give the version after the name: {plugin}:2")
    twice = next((name for name, count in Counter(names.values()).items() if count > 1), None)
    if twice is not None:
        raise UsageError(f"Two attributes set the field {twice} of {plugin}. Give each attribute a separate field.")


def _version(plugin: str) -> str:
    """The newest declared version; "1" if none was declared."""
    known = (one.version for one in own_plugins() if one.name == plugin)
    return max(known, key=lambda version: (len(version), version), default="1")


def _namespace(plugin: str, version: str | None) -> str:
    wanted = version or _version(plugin)
    return next((one.namespace for one in own_plugins() if (one.name, one.version) == (plugin, wanted)), "")
