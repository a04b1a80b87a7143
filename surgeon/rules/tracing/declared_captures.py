"""A class of captures: their names, types, axes and defaults, declared once.

    class Core(Captures):
        q: Tensor = dims("batch heads rows columns")
        kt: Tensor = dims("batch heads columns keys")
        mask: Tensor | None = None
        scale: float = 1.0
        heads: int  # must be fixed

    def core(g: Graph, m: Core) -> Tensor: ...        # a pattern
    def is_wide(m: Core) -> None: ...                 # a condition
    def attention(g: Graph, m: Core) -> Tensor: ...   # a replacement
"""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Self

from surgeon.errors import ConditionFailed, RuleError, require
from surgeon.rules.matching.match import Match
from surgeon.rules.tracing.annotations import (
    MISSING,
    ModelAccessWhileTracing,
    Parameter,
    is_tensor_annotation,
    resolve_annotation,
)
from surgeon.rules.tracing.axis_layouts import (
    ANY_AXES,
    ANY_SIZE,
    AXIS_NAME,
    OUTER,
    SOME_AXES,
    AxisLayouts,
    fits_rank,
    open_axis,
)
from surgeon.shapes.algebra.size_expressions import Size, parse_size, substitute


class Captures:
    """The captures of a rule's patterns, as fields: declared once for its patterns, conditions and replacements.

    A subclass lists captures as a pattern's parameters would (`x: Tensor`, `w: Constant`, `alpha: float`, `axes:
    list[int]`, `bias: Tensor | None = None`), `others: tuple[Tensor, ...]` for all further inputs, and `attributes:
    dict[str, Any]` for all further attributes of a node.  A value is the default of the field, for a pattern that does
    not bind it.  `dims` names the axes of a tensor, and sizes have these names; one that is a field of type int must
    be fixed.  A field that is a record itself, such as `q: Projection`, contains all fields of that record, with the
    names `q_...` and its own axes; axes that begin with a dot are shared with the outer record.

    In a pattern, a field is the tensor or number to match; giving it a value, as in `m.total = g.add(m.x, m.skip)`,
    captures an inner tensor.  In conditions and replacements it is the matched value.

    Args:
        match: the match whose captures these are.
        prefix: the prefix of their names there, if the record is a field of another.

    Raises:
        RuleError: a field is read that the pattern does not bind, and that has no default; two things have one name.

    Examples:
        >>> from surgeon import Captures, Graph, Tensor, rule
        >>> class Scaled(Captures):
        ...     x: Tensor
        ...     factor: float = 1.0
        >>> def scaled(g: Graph, m: Scaled) -> Tensor:
        ...     return g.relu(g.optional(g.mul(m.x, m.factor)))
        >>> @rule(patterns=[scaled], target="any")
        ... def relu_first(g: Graph, m: Scaled) -> Tensor:
        ...     return g.mul(g.relu(m.x), m.factor)
    """

    _fields: ClassVar[Mapping[str, Parameter]] = {}
    _parts: ClassVar[Mapping[str, "type[Captures]"]] = {}
    _dims: ClassVar[Mapping[str, AxisLayouts]] = {}
    _axes: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        """Read the fields of a subclass, after those of its bases."""
        fields: dict[str, Parameter] = {}
        axes: dict[str, AxisLayouts] = {}
        parts: dict[str, type[Captures]] = {}
        for base in reversed(cls.__mro__[1:]):
            fields |= vars(base).get("_fields", {})
            axes |= vars(base).get("_dims", {})
            parts |= vars(base).get("_parts", {})
        space = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
        for name, annotation in inspect.get_annotations(cls).items():
            if name in _OWN:
                raise RuleError(
                    f"{cls.__qualname__}.{name} is reserved, because every record has it. Rename the field."
                )
            default = vars(cls).get(name, MISSING)
            if name in vars(cls):
                delattr(cls, name)
            axes.pop(name, None)
            parts.pop(name, None)
            if isinstance(default, AxisLayouts):
                axes[name], default = default, default.default
            fields[name] = Parameter(name, resolve_annotation(annotation, space, f"{cls.__qualname__}.{name}"), default)
            part = captures_class_of(fields[name])
            if part is not None:
                parts[name] = part
                del fields[name]
        cls._fields, cls._dims, cls._parts = fields, axes, parts
        cls._axes = frozenset(
            found
            for one in axes.values()
            for layout in one.layouts
            for axis in layout
            for found in AXIS_NAME.findall(axis)
        )
        for name in sorted(cls._axes & {*fields, *parts}):
            if name in axes or name in parts or is_tensor_annotation(fields[name].type):
                raise RuleError(f"{cls.__qualname__}.{name} is both a tensor and an axis. Rename one of them.")
        alone = {axis.strip(".?*") for one in axes.values() for layout in one.layouts for axis in layout}
        for name in cls._axes - alone:
            if name in fields and fields[name].default is MISSING:
                raise RuleError(
                    f"{cls.__qualname__}.{name} is not the size of an axis: dims only computes with {name!r}. Capture "
                    f'a tensor that has this axis: dims("... {name}")'
                )

    def __init__(self, match: Match, prefix: str = "") -> None:
        """The captures of a match.  prefix: of their names there, if the class is a field of another."""
        self.__dict__.update(_match=match, _prefix=prefix)

    def but(self, **values: Any) -> Self:
        """The same captures with some replaced, for a pattern that is used to write nodes.

        Args:
            values: tensors or numbers by field, or a record for a field that is a record.

        Returns:
            A record for a replacement, which passes it to a pattern of the same rule: the pattern writes its nodes as
            they were matched, without nodes whose inputs the match lacks.

        Raises:
            RuleError: a field does not exist.

        Examples:
            >>> from surgeon import Captures, Graph, Tensor, rule
            >>> class Weighed(Captures):
            ...     x: Tensor
            ...     factor: float | None = None
            >>> def weighed(g: Graph, m: Weighed) -> Tensor:
            ...     return g.relu(g.optional(g.mul(g.neg(m.x), m.factor)))
            >>> @rule(patterns=[weighed], target="any")
            ... def of_abs(g: Graph, m: Weighed) -> Tensor:
            ...     return weighed(g, m.but(x=g.abs(m.x)))
        """
        unknown = [name for name in values if name not in self._fields and name not in self._parts]
        if unknown:
            raise RuleError(str(_no_field(type(self), unknown[0])))
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **values)
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        """Replace an inner tensor by the one that the recreated pattern produces, if the match has it."""
        if getattr(self, name) is not None:
            self.__dict__[name] = value

    @property
    def match(self) -> Match:
        """The match: its place, its nodes, the opset."""
        found: Match | None = self.__dict__.get("_match")
        if found is None:
            raise ModelAccessWhileTracing(f"a pattern is traced without a model, so {type(self).__name__} has no match")
        found.inspected = True
        return found

    @property
    def output_count(self) -> int:
        """The number of outputs of the match, for patterns that have alternatives with more and fewer.

        Unlike the match, it is the same at all similar sites, so that they share one replacement.
        """
        return len(self._match.outputs)

    @classmethod
    def fields(cls) -> tuple[Parameter, ...]:
        """Its captures, in order, without the sizes of axes."""
        return (
            *cls._own_fields(),
            *(
                replace(field, name=f"{name}_{field.name}")
                for name, part in cls._parts.items()
                for field in part.fields()
            ),
        )

    @classmethod
    def _own_fields(cls) -> tuple[Parameter, ...]:
        return tuple(field for name, field in cls._fields.items() if name not in cls._axes)

    def __getattr__(self, name: str) -> Any:
        if name in self._parts:
            part = self.__dict__[name] = self._parts[name](self._match, f"{self._prefix}{name}_")
            return part
        field = self._fields.get(name, Parameter(name, Any))
        if name in self._axes:
            self.__dict__.update(self._sizes())
            value = self.__dict__.get(name, field.default)
        elif name not in self._fields:
            raise _no_field(type(self), name)
        else:
            value = self._found(name, field.default)
        if value is MISSING:
            what = "has no axis" if name in self._axes else "does not capture"
            raise RuleError(
                f"{type(self).__name__}.{name} has no value: the match of pattern {self._match.pattern.name} {what} "
                f"{name!r}. Give the field a default: {name}: Any = None"
            )
        self.__dict__[name] = value
        return value

    def _found(self, name: str, default: Any) -> Any:
        name = self._prefix + name
        return self._match[name] if name in self._match.bound else default

    def require_dims(self) -> None:
        """Raise ConditionFailed if a captured tensor has other axes than its field declares."""
        self._sizes()
        for name in self._parts:
            getattr(self, name).require_dims()

    def _sizes(self) -> dict[str, Size]:
        """The sizes of all named axes.

        Raises ConditionFailed if the tensors' shapes contradict each other.
        """
        sizes: dict[str, Size] = {}
        first: dict[str, str] = {}
        later: list[tuple[str, str, Size]] = []
        for name, axis, size in self._named_axes():
            if AXIS_NAME.fullmatch(axis) and axis not in sizes:
                sizes[axis], first[axis] = size, name
            else:
                later.append((name, axis, size))
        for name, axis, size in later:
            dim, may_be_one = axis.removesuffix("?"), axis.endswith("?")
            if may_be_one and size == 1:
                continue
            unknown = [item for item in AXIS_NAME.findall(dim) if item not in sizes]
            if unknown == [dim]:  # only named with a ?
                sizes[dim], first[dim] = size, name
            elif not unknown:  # else the tensor of one of its names is absent
                wanted = sizes[dim] if dim in sizes else substitute(parse_size(dim), sizes)
                other = "elsewhere it" if first.get(dim) == name else f"that of {first.get(dim)}"
                where = f"but {other} is" if dim in first else "expected"
                what = f"the {dim} of {name} is {size}, {where}"
                if dim.isdecimal():
                    what = f"{name} has an axis of size {size}, expected"
                require(size == wanted, f"{what} {wanted}")
        for axis, size in sizes.items():
            field = self._fields.get(axis)
            require(
                field is None or field.type is not int or isinstance(size, int),
                f"the {axis} of {first[axis]} is {size}, not a fixed size",
            )
        return sizes

    def _named_axes(self) -> Iterator[tuple[str, str, Size]]:
        """Each axis of each captured tensor with declared axes: the capture, the axis, and its size.

        Axes that nested classes share with this one are included.
        """
        yield from ((name, axis.removeprefix(OUTER), size) for name, axis, size in self._own_axes())
        for part in self._parts:
            axes = getattr(self, part)._own_axes()
            yield from ((name, axis[1:], size) for name, axis, size in axes if axis.startswith(OUTER))

    def _own_axes(self) -> Iterator[tuple[str, str, Size]]:
        for name, axes in self._dims.items():
            tensor, name = self._found(name, None), self._prefix + name
            if tensor is None:
                continue
            shape = tensor.shape
            require(shape is not None, f"the axes of {name} are unknown, expected {axes}")
            layout = next((layout for layout in axes.layouts if fits_rank(layout, len(shape))), None)
            if layout is None:
                raise ConditionFailed(f"{name} has {len(shape)} axes, expected {axes}")
            place = open_axis(layout)
            if place is not None:
                behind, some = len(shape) - (len(layout) - place - 1), layout[place].removeprefix(SOME_AXES)
                layout = (*layout[:place], ANY_SIZE if some == ANY_AXES else some, *layout[place + 1 :])
                shape = (*shape[:place], shape[place:behind], *shape[behind:])
            yield from ((name, axis, size) for axis, size in zip(layout, shape, strict=True) if axis != ANY_SIZE)


def _no_field(record: type[Captures], name: str) -> AttributeError:
    return AttributeError(f"{record.__name__} has no field {name!r}. Its fields: {', '.join(record._fields) or 'none'}")


_OWN = ("but", "match", "output_count", "fields", "require_dims")


def captures_class_of(parameter: Parameter) -> type[Captures] | None:
    """The `Captures` class of a parameter, if it has one."""
    kind = parameter.type
    return kind if isinstance(kind, type) and issubclass(kind, Captures) else None


def traced_captures(
    record: type[Captures], symbol: Callable[[Parameter], Any], name: Callable[[str, Any], Any], prefix: str = ""
) -> Captures:
    """Captures as a pattern sees them.  symbol: returns the value of a field; name: names an inner tensor as a field.

    prefix: of the names, if the class is a field of another.
    """
    kind = _recording(record)  # type: ignore[arg-type]  # mypy takes the hash of instances for that of the class
    made = kind.__new__(kind)
    own = {field.name: symbol(replace(field, name=prefix + field.name)) for field in record._own_fields()}
    parts = {of: traced_captures(part, symbol, name, f"{prefix}{of}_") for of, part in record._parts.items()}
    made.__dict__.update(own, **parts, _name=name, _prefix=prefix)
    return made


@lru_cache(maxsize=1024)
def _recording(record: type[Captures]) -> type[Captures]:
    """A subclass that turns an assignment to a field into a capture."""

    def assign(self: Captures, field: str, value: Any) -> None:
        if field not in record._fields or field in record._axes:
            raise RuleError(f"{record.__name__} has no capture {field!r}. Declare it in the class.")
        self.__dict__[field] = self.__dict__["_name"](self.__dict__["_prefix"] + field, value)

    def absent(self: Captures, field: str) -> Any:
        if field in record._axes:
            raise ModelAccessWhileTracing(
                f"a pattern is traced without a model, so {record.__name__}.{field} has no size"
            )
        raise _no_field(record, field)

    return type(record.__name__, (record,), {"__setattr__": assign, "__getattr__": absent})
