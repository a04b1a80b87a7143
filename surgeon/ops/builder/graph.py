"""A `gs.Graph` on which every ONNX and ONNX Runtime op is a helper, for both sides of a rule.

`Graph` builds real nodes; the graph of `surgeon.rules.tracing.tracer` overrides `emit` and records a pattern.
Importing this module also registers the helpers on `gs.Graph` itself, without replacing existing ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx_graphsurgeon as gs

import surgeon.ops.builder.layout_composites  # noqa: F401  its words
from surgeon.entry_points import entry_points
from surgeon.errors import ConditionFailed, MissingInputError, RuleError
from surgeon.ops.builder.composites import find_composite, words
from surgeon.ops.builder.helper_docs import HelperFunction, described, described_function
from surgeon.ops.builder.tensor_operators import Operators
from surgeon.ops.schemas import VARIADIC, bind, operators, schema
from surgeon.ops.schemas.helper_names import domain_and_name, helper_name, operator_of
from surgeon.text import close_matches, join_all

Tensor: TypeAlias = gs.Tensor


class _ConstantMeta(type):
    """Makes `isinstance` true for every tensor whose value is fixed in the file."""

    def __instancecheck__(cls, item: object) -> bool:
        return isinstance(item, gs.Constant) or getattr(item, "is_constant", False) is True


class Constant(gs.Constant, metaclass=_ConstantMeta):
    """A tensor whose value is fixed in the file.  `isinstance(x, Constant)` asks the model, also for a capture."""


ASSOCIATIVE = frozenset({"Add", "Mul"})  # their helpers accept any number of operands
DOMAINS = ("", "ai.onnx.ml", "com.microsoft")
_ours: dict[str, Callable[..., Any]] = {}


class UnknownHelper(RuleError, AttributeError):
    """A graph has no helper of this name; an AttributeError too, so that `hasattr` works."""


class Graph(gs.Graph):
    """A small graph built by helpers: `g.mul(x, 0.5)`, `g.ms_gelu(x)`, `g.op("custom::deform_conv2d", x, w)`.

    A plain number or array as an input becomes a constant, in the dtype of the inputs that share its type variable in
    the op's schema.  The schema also determines the types of attributes.

    Args:
        opset: version of ai.onnx that the helpers follow; gs's own by default.
        versions: versions of other domains, by domain.
        home: top-level package of the running rule; an installed rule pack sees only its own helpers and surgeon's.

    Raises:
        RuleError: a helper does not exist, or its arguments do not fit the op's schema.

    Examples:
        >>> import surgeon
        >>> g = surgeon.Graph(opset=18)
        >>> y = g.softmax(g.literal([[1.0, 2.0]]), axis=-1)
        >>> [(node.op, node.attrs) for node in g.nodes]
        [('Softmax', {'axis': -1})]
    """

    def __init__(self, *, opset: int | None = None, versions: Mapping[str, int] | None = None, home: str = "") -> None:
        """Create an empty graph."""
        self.versions = dict(versions or {})
        self.home = home
        self.made = 0
        self.called: dict[str, Any] = {}  # local functions whose calls it holds, by op
        super().__init__(opset=opset)
        self.versions.setdefault("", self.opset)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("versions", "home", "made", "called", "_functions"):
            raise AttributeError(name)
        helper = user_helper(name, self.helper_opset(), self.home)
        if helper is not None:
            return HelperFunction(name, partial(helper, self), partial(described_function, helper))
        word = find_composite(name)
        if word is not None:
            return HelperFunction(name, lambda *args: self.say(name, word, args), partial(described_function, word))
        operator = operator_of(name)
        if operator is not None:
            domain, op = operator
            return HelperFunction(
                name,
                lambda *args, **kwargs: self.call(domain, op, args, kwargs),
                lambda: described(domain, op, self.version(domain)),
            )
        near = close_matches(name, [*words(), *_vocabulary()])
        hint = f"did you mean {join_all(near, 'or')}?" if near else "register your own with @gs.Graph.register()."
        raise UnknownHelper(f"No helper named {name!r}; {hint}")

    def say(self, name: str, word: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Call a composite helper (`surgeon.ops.builder.composites`)."""
        if args and args[0] is None:
            return AbsentTensor(f"{name} needs a tensor, not None.", None)
        return word(self, *args)

    def helper_opset(self) -> int | None:
        """The ai.onnx version by which versioned helpers are chosen; None: all of them."""
        return int(self.opset)

    def call(self, domain: str, op: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Add one node of a known op; returns its output, or a tuple if it has several.

        Raises RuleError if the arguments do not fit the op's schema at this graph's opset.
        """
        if op in ASSOCIATIVE and not domain and len(args) > 2:
            args = (self.call(domain, op, args[:-1], kwargs), args[-1])
        missing = next((item.reason for item in (*args, *kwargs.values()) if isinstance(item, AbsentTensor)), "")
        try:
            bound = bind(domain, op, args, kwargs, opset=self.version(domain))
        except MissingInputError as error:
            missing = missing or str(error)
        if missing:
            absent, count = AbsentTensor(missing, args[0]), kwargs.get("outputs", 1)
            return absent if count == 1 else (absent,) * count
        found = self.emit(domain, op, bound.inputs, attributes=bound.attributes, outputs=bound.outputs)
        return tuple(found) if bound.several else found[0]

    def version(self, domain: str) -> int | None:
        """The version of a domain in this graph; None (the newest) if the model does not import the domain yet."""
        return self.versions.get(domain) if domain else int(self.opset)

    def op(self, kind: str, /, *inputs: Any, outputs: int | None = None, **attributes: Any) -> Any:
        """Add a node of any op: `g.op("custom::deform_conv2d", x, w, groups=1)`; no domain means ai.onnx.

        In a pattern `*` and `?` are wildcards: `"*::deform_conv2d"`, `"custom::*"`.  Raises RuleError for an invalid
        name, and for fewer outputs than one.
        """
        domain, name = domain_and_name(kind, outputs)
        known = schema(domain, name, self.version(domain))
        is_first = outputs is None or outputs == 1  # only the first, however many there are
        if known is not None:
            is_given = not is_first or (outputs is not None and known.max_outputs == VARIADIC)
            given = {**attributes, "outputs": outputs} if is_given else dict(attributes)
            found = self.call(domain, name, inputs, given)
            return found[0] if is_first and isinstance(found, tuple) else found
        made = self.emit(domain, name, inputs, attributes=dict(attributes), outputs=outputs or 1)
        return made[0] if is_first else tuple(made)

    def any_of(self, *forms: Tensor) -> Tensor:
        """Any of several forms in a pattern; in a replacement the first one that reads only captured tensors."""
        if not forms:
            raise RuleError("any_of needs at least one alternative.")
        return next((form for form in forms if form is not None and not isinstance(form, AbsentTensor)), forms[0])

    def optional(self, tensor: Tensor) -> Tensor:
        """A node that may be absent (its first input replaces it); a replacement omits it if a capture is absent."""
        made, *_ = getattr(tensor, "inputs", None) or [None]
        is_needed = made is None or len(made.inputs) > 1 or made.attrs
        first: Tensor = tensor.first if isinstance(tensor, AbsentTensor) else tensor if is_needed else made.inputs[0]
        return first

    def capture(self, name: str, tensor: Tensor) -> Tensor:
        """Give an inner tensor of a pattern a name that conditions and replacements can ask for."""
        return tensor

    def shared(self, tensor: Tensor) -> Tensor:
        """An inner tensor of a pattern that may have other consumers: its node stays."""
        return tensor

    def exposed(self, tensor: Tensor) -> Tensor:
        """An inner tensor of a pattern that may have other consumers: it is then a further output, which the
        replacement returns after the others.
        """
        return tensor

    def named(self, tensor: Tensor) -> Tensor:
        """A tensor of a pattern that `such_that` can inspect; it gets a generated name."""
        return tensor

    def such_that(self, tensor: Tensor, predicate: Callable[..., None], *others: Any) -> Tensor:
        """A tensor of a pattern with a further condition: `predicate(tensor, *others)` calls `require`.

        others: parameters of the pattern, captured tensors, or plain values.
        """
        return tensor

    def any_tensor(self) -> Tensor:
        """An input of a pattern that may be any tensor."""
        return WildcardTensor("tensor")

    def any_number(self) -> Tensor:
        """An input of a pattern that may be any scalar constant."""
        return WildcardTensor("number")

    def literal(self, value: Any, *, rtol: float | None = None) -> Tensor:
        """A constant by value, with its own relative tolerance."""
        fixed: Tensor = self._tensor(value)
        return fixed

    def layer(self, inputs: Any = None, outputs: Any = None, *args: Any, **kwargs: Any) -> list[Any]:
        """Add a node as gs's own `layer` does, for helpers in the style of its examples."""
        op = kwargs.get("op", args[0] if args else "")
        attributes = dict(kwargs.get("attrs") or {})
        wanted = list(outputs or [])
        domain = kwargs.get("domain") or ""
        found = self.emit(domain, op, list(inputs or []), attributes=attributes, outputs=max(len(wanted), 1))
        for tensor, given in zip(found, wanted, strict=False):
            if isinstance(given, gs.Tensor):
                tensor.dtype, tensor.shape = given.dtype, given.shape
        return found

    def emit(self, domain: str, op: str, inputs: Sequence[Any], attributes: dict[str, Any], outputs: int) -> list[Any]:
        """Add one node; its arguments are already sorted into inputs and attributes."""
        tensors = [self._tensor(value) for value in self._typed(domain, op, inputs)]
        made = [BuiltTensor(self._fresh(op)) for _ in range(outputs)]
        given = {name: value for name, value in attributes.items() if value is not None}
        self.nodes.append(gs.Node(op=op, domain=domain or None, attrs=given, inputs=tensors, outputs=made))
        self._type_outputs(domain, op, tensors, made)
        return made

    def _fresh(self, stem: str) -> str:
        self.made += 1
        return f"{stem}_{self.made}"

    def _tensor(self, value: Any) -> Any:
        if isinstance(value, gs.Tensor):
            return value
        return (
            gs.Variable.empty() if value is None else LiteralConstant(self._fresh("constant"), np.asarray(value), None)
        )

    def _typed(self, domain: str, op: str, inputs: Sequence[Any]) -> Iterator[Any]:
        """Give each plain number the dtype of the siblings that share its type variable, or record one of them."""
        known = schema(domain, op, self.version(domain))
        for position, value in enumerate(inputs):
            if isinstance(value, LiteralConstant) and value.is_plain:
                value = value.values
            if value is None or isinstance(value, gs.Tensor):
                yield value
                continue
            formal = _formal(known.inputs, position).type if known else "T"
            if formal.startswith("tensor("):
                yield LiteralConstant(self._fresh("constant"), fitted(np.asarray(value), _numpy(formal)), None)
                continue
            shares = [
                other
                for place, other in enumerate(inputs)
                if isinstance(other, gs.Tensor) and (known is None or _formal(known.inputs, place).type == formal)
            ]
            yield self._like(np.asarray(value), shares)

    def _like(self, value: np.ndarray[Any, Any], others: Sequence[Any]) -> Any:
        siblings = [item.dtype_source if isinstance(item, LiteralConstant) else item for item in others]
        for sibling in siblings:
            if sibling.dtype is not None:
                return LiteralConstant(self._fresh("constant"), fitted(value, sibling.dtype), None)
        if value.dtype == np.float64:
            value = value.astype(np.float32)
        return LiteralConstant(self._fresh("constant"), value, siblings[0] if siblings else None)

    def _type_outputs(self, domain: str, op: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Let an output take its dtype from an input that shares its type variable in the schema."""
        known = schema(domain, op, self.version(domain))
        if known is None:
            return
        if op == "Cast" and not domain:
            to = self.nodes[-1].attrs["to"]
            outputs[0].dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(getattr(to, "i", to)))
        for position, tensor in enumerate(outputs):
            formal = _formal(known.outputs, position).type
            if len(allowed := known.types.get(formal, frozenset({formal}))) == 1:
                tensor.dtype = _numpy(next(iter(allowed)))
            for place, source in enumerate(inputs):
                if source.name and _formal(known.inputs, place).type == formal:
                    tensor.like = source.dtype_source if isinstance(source, LiteralConstant) else source
                    break


class BuiltTensor(Operators, gs.Variable):
    """A tensor that a graph made; its dtype is that of `like`, looked up on demand."""

    def __init__(self, name: str) -> None:
        self.like: Any = None
        self._dtype: Any = None
        super().__init__(name)

    @property
    def dtype(self) -> Any:
        """The numpy dtype, or None if it is unknown."""
        return self._dtype if self._dtype is not None or self.like is None else self.like.dtype

    @dtype.setter
    def dtype(self, value: Any) -> None:
        self._dtype = value


class AbsentTensor(Operators, gs.Variable):
    """The output of a node that reads a capture which the match does not have.  first: its first input."""

    def __init__(self, reason: str, first: Any) -> None:
        super().__init__("absent")
        self.reason, self.first = reason, first


class WildcardTensor(Operators, gs.Variable):
    """Represents anything in a pattern; a replacement cannot write a form that reads it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"any_{what}")
        self.what = what


class LiteralConstant(Operators, gs.Constant):
    """A constant that a replacement wrote as a plain number; `like`: the tensor whose dtype it takes at run time."""

    def __init__(self, name: str, values: np.ndarray[Any, Any], like: Any) -> None:
        super().__init__(name, values.astype(object) if values.dtype.kind == "U" else values)  # strings, as ONNX's are
        self.like, self.dtype_source = like, self if like is None else like

    @property
    def is_plain(self) -> bool:
        """Whether it was a Python number or list, so that its consumer determines its dtype."""
        return self.like is None and self.values.dtype in (np.float64, np.int64)


def fitted(value: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """A number in a dtype.  Raises ConditionFailed if its value would change: 2.7 as an integer, 1e6 as float16."""
    is_string, wanted = value.dtype.kind in "OU", np.dtype(dtype).kind in "OU"
    if is_string or wanted:
        if is_string != wanted:
            kinds = [("a number", "a string")[kind] for kind in (is_string, wanted)]
            raise ConditionFailed(f"expected {kinds[1]}, but the rule writes {value.tolist()!r}, {kinds[0]}")
        return value.astype(object)
    with np.errstate(all="ignore"):
        cast = value.astype(dtype)
        is_same = (
            np.array_equal(cast, value)
            if cast.dtype.kind in "biu"
            else not np.any(np.isfinite(value) & ~np.isfinite(cast.astype(np.float64)))
        )
    if not is_same:
        raise ConditionFailed(f"the rule writes {value.tolist()}, which {np.dtype(dtype).name} cannot represent")
    return cast


def _formal(formals: Sequence[Any], position: int) -> Any:
    return formals[min(position, len(formals) - 1)]


def _numpy(type_string: str) -> np.dtype[Any]:
    kind = type_string[len("tensor(") : -1]
    name = {"float": "FLOAT", "double": "DOUBLE"}.get(kind, kind.upper())
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, name)))


def user_helper(name: str, opset: int | None, home: str) -> Callable[..., Any] | None:
    """The helper that a user registered under this name, if rules of package `home` may see it."""
    found: list[Callable[..., Any]] = []
    for version, by_name in gs.Graph.OPSET_FUNC_MAP.items():
        if name in by_name and opset in (None, version):
            found.append(by_name[name])
    if name in gs.Graph.GLOBAL_FUNC_MAP:
        found.append(gs.Graph.GLOBAL_FUNC_MAP[name])
    if not found:
        return None
    found = [helper for helper in dict.fromkeys(found) if _ours.get(name) is not helper]
    if home and found and home in _packs():
        found = [helper for helper in found if helper.__module__.partition(".")[0] == home]
    if not found:
        return None
    if opset is not None or len(found) == 1:
        chosen: Callable[..., Any] = found[0]
        return chosen
    return lambda graph, *args, **kwargs: graph.any_of(*(helper(graph, *args, **kwargs) for helper in found))


def _packs() -> frozenset[str]:
    """Top-level packages whose rules are found through their entry points."""
    return frozenset(point.module.partition(".")[0] for point in entry_points())


@cache
def _vocabulary() -> dict[str, tuple[str, str]]:
    return {helper_name(domain, op): (domain, op) for domain in DOMAINS for op in operators(domain)}


def register_helpers() -> None:
    """Register every helper on `gs.Graph`, so that a plain gs graph has them; existing helpers stay."""
    for name, (domain, op) in _vocabulary().items():
        if name in gs.Graph.GLOBAL_FUNC_MAP or hasattr(gs.Graph, name):
            continue
        _ours[name] = gs.Graph.GLOBAL_FUNC_MAP[name] = _plain_helper(name, domain, op)


def _plain_helper(name: str, domain: str, op: str) -> Callable[..., Any]:
    def helper(self: Any, *args: Any, **kwargs: Any) -> Any:
        versions = {item.domain: item.version for item in self.import_domains or ()}
        bound = bind(domain, op, args, kwargs, opset=versions.get(domain) if domain else self.opset)
        inputs = [gs.Variable.empty() if value is None else value for value in bound.inputs]
        outputs = [f"{name}_out" for _ in range(bound.outputs)]
        attrs = {key: value for key, value in bound.attributes.items() if value is not None}
        found = self.layer(op=op, domain=domain or None, inputs=inputs, outputs=outputs, attrs=attrs)
        return tuple(found) if bound.several else found[0]

    helper.__name__ = name
    helper.__doc__ = f"`{domain or 'ai.onnx'}::{op}`, with arguments in the order of its schema."
    return helper
