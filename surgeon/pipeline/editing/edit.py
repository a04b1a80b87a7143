"""`Edit`, the base class of whole-model edits: fields, validation and command-line syntax."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

from surgeon.declarations import FieldManual
from surgeon.errors import RuleError, UsageError
from surgeon.ops.schemas.attribute_values import DTYPES, dtype_number
from surgeon.pipeline.editing.draft import ModelDraft


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _are(value: object, is_one: Callable[[object], bool]) -> bool:
    return isinstance(value, (list, tuple)) and all(map(is_one, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _are_two(value: object) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_is_whole, value))


_KINDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "str": ("a string", _is_text),
    "str | None": ("a string, or None", lambda value: value is None or _is_text(value)),
    "tuple[int, int] | None": ("two integers, or None", lambda value: value is None or _are_two(value)),
    "int": ("an integer", _is_whole),
    "float": ("a number", _is_number),
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "tuple[str, ...]": ("a list of names", lambda value: _are(value, _is_text)),
    "tuple[float, ...]": ("a list of numbers", lambda value: _are(value, _is_number)),
    "collections.abc.Mapping[str, typing.Any]": ("a table", lambda value: isinstance(value, Mapping)),
}


def _kind(part: "dataclasses.Field[Any]") -> str:
    """The type of a field as text."""
    return part.type.__name__ if isinstance(part.type, type) else str(part.type)


class Edit(ABC):
    """One change of a whole model, as a value: a frozen dataclass whose docstring is its manual.

    Attributes:
        flag: its name at the command line and in a recipe, as in `--rename`.
        metavar: the value of the flag, as in `OLD=NEW`; empty for a flag without a value.
        feeds: the inputs of the edited model: the original's ("kept"), inner tensors of the original ("inner"), or
            tensors from which the original's inputs are computed ("made").
        jumps: whether rounding in its inputs can change its output a lot, as for the index of a maximum.  Such an edit
            is checked separately from the other edits.

    Examples:
        >>> import surgeon
        >>> edit = surgeon.edits.Rename("input_ids", "tokens")
        >>> edit.flag, edit.spelling
        ('rename', 'input_ids=tokens')
    """

    flag: ClassVar[str]
    metavar: ClassVar[str]
    feeds: ClassVar[Literal["kept", "inner", "made"]] = "kept"
    jumps: ClassVar[bool] = False

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if isinstance(cls.__dict__.get("__doc__"), str):
            cls.__doc__ = FieldManual(cls.__dict__["__doc__"])  # type: ignore[assignment]  # a descriptor

    def require_kinds(self) -> None:
        """Raise UsageError for a field of another type than it declares."""
        parts: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(self) if dataclasses.is_dataclass(self) else ()
        for part in parts:
            value, name = getattr(self, part.name), type(self).__name__
            expected, is_one = _KINDS.get(_kind(part), ("", None))
            if is_one is not None and not is_one(value):
                raise UsageError(f"Invalid {part.name} of {name}: expected {expected}, got {value!r}.")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the value of its flag: empty, one field, or two fields as LEFT=RIGHT.

        Args:
            text: the value, as typed.

        Returns:
            The edit.

        Raises:
            UsageError: the text does not have the form of `metavar`.
        """
        count = len(cls._fields())
        given = parse_pair(text, cls.metavar) if count == 2 else (text,) * count
        return cls(*given)

    @property
    def spelling(self) -> str:
        """The text that `parse` parses."""
        return "=".join(str(getattr(self, name)) for name in self._fields())

    @property
    def alone(self) -> bool:
        """Whether it is checked by itself: its output jumps, or it claims more than other edits."""
        return self.jumps

    @classmethod
    def _fields(cls) -> list[str]:
        return [item.name for item in dataclasses.fields(cls)]  # type: ignore[arg-type]  # each edit is a dataclass

    @abstractmethod
    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Change a draft, and its claim if names, inputs or outputs change.

        Args:
            draft: the model to edit.  Its changes are discarded if this raises.

        Returns:
            The changes as sentences without a full stop ("input 'x' is renamed to 'y'"); none if nothing changed.

        Raises:
            UsageError: the model lacks a name in the edit, or does not allow the edit.
            GraphError: a node of the model prevents the edit.
        """

    def to_dict(self) -> dict[str, Any]:
        """The edit's fields as values that JSON supports."""
        return dataclasses.asdict(self)  # type: ignore[call-overload,no-any-return]  # as above


class KeyedEdit(Edit):
    """An edit of one tensor, its first field, with settings: "images,layout=NHWC,bgr".

    setting_names: the fields that are settings, in order; if empty, all but the first.
    """

    setting_names: ClassVar[Sequence[str]] = ()

    @classmethod
    def settings(cls) -> dict[str, Callable[[str], Any]]:
        """The parsers of the settings, by the types of their fields."""
        kinds = {item.name: _kind(item) for item in dataclasses.fields(cls)}  # type: ignore[arg-type]  # as above
        return {name: _PARSERS.get(kinds[name], str) for name in cls.setting_names or cls._fields()[1:]}

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the name and the settings after it."""
        name, settings = parse_keyed(text, cls.metavar, cls.settings())
        return cls(name, **settings)  # type: ignore[call-arg]  # as above

    @property
    def spelling(self) -> str:
        """The name and the settings after it."""
        return format_keyed(getattr(self, self._fields()[0]), {name: getattr(self, name) for name in self.settings()})


def parse_dtype(name: str) -> int:
    """The number (TensorProto.DataType) of a dtype by name.  Raises UsageError for an unknown one."""
    try:
        number = dtype_number(name)
    except RuleError as error:
        raise UsageError(str(error)) from None
    if number not in DTYPES:
        raise UsageError(f"{name!r} is not a dtype. Write a name such as 'float16'.")
    return number


def parse_pair(text: str, form: str) -> tuple[str, str]:
    """The two sides of the last `=` of a text.  form: syntax, printed in the message.  Raises UsageError."""
    left, sign, right = text.rpartition("=")
    if not sign or not left.strip() or not right.strip():
        raise UsageError(f"{text!r} is not of the form {form}.")
    return left.strip(), right.strip()


def parse_keyed(text: str, form: str, known: Mapping[str, Callable[[str], Any]]) -> tuple[str, dict[str, Any]]:
    """A name and the settings after it: "images,layout=NHWC,bgr".

    known: by key, the parser of its value; a key without a value has "true".  Raises UsageError for another syntax, an
    unknown key or an invalid value.
    """
    head, *rest = [part.strip() for part in text.split(",")]
    if not head or "=" in head:
        raise UsageError(f"{text!r} is not of the form {form}.")
    found: dict[str, Any] = {}
    for part in rest:
        key, sign, value = part.partition("=")
        if key not in known:
            raise UsageError(f"Unknown setting {key!r} of {form}. Settings: {', '.join(known)}.")
        try:
            found[key] = known[key](value if sign else "true")
        except ValueError:
            raise UsageError(f"Invalid value {value!r} of {key} in {text!r}. Expected: {form}") from None
    return head, found


def format_keyed(head: str, settings: Mapping[str, Any]) -> str:
    """The text that `parse_keyed` parses; settings that are None, False or empty are left out."""
    parts = [head]
    for key, value in settings.items():
        if value is True:
            parts.append(key)
        elif isinstance(value, tuple):
            parts += [f"{key}={'/'.join(f'{item:g}' for item in value)}"] if value else []
        elif value not in (None, False, ""):
            parts.append(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}")
    return ",".join(parts)


def parse_flag(text: str) -> bool:
    """A setting "true" or "false".  Raises ValueError."""
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def parse_numbers(text: str) -> tuple[float, ...]:
    """Numbers separated by slashes.  Raises ValueError."""
    return tuple(float(part) for part in text.split("/"))


def parse_names(text: str, form: str) -> tuple[str, ...]:
    """Names separated by commas.  Raises UsageError for no name or a repeated one."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise UsageError(f"{text!r} is not of the form {form}.")
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{twice!r} is repeated in {text!r}.")
    return found


def parse_picture_size(text: str) -> tuple[int, int]:
    """Read height and width: "640" for both, or "480x640".  Raises UsageError."""
    parts = text.lower().split("x")
    if len(parts) > 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise UsageError(f"Invalid image size {text!r}. Write 640, or 480x640 for height and width.")
    return int(parts[0]), int(parts[-1])


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": parse_flag,
    "tuple[float, ...]": parse_numbers,
    "tuple[int, int] | None": parse_picture_size,
}
"""By the type of a setting, the parser of its text; texts stay as they are."""
