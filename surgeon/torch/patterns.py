"""Patterns by example: `surgeon.torch.pattern` for rules, `surgeon.torch.learn` for their text."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from surgeon.errors import UsageError
from surgeon.learning.lessons import Lesson
from surgeon.torch.examples import ExportMode, learned
from surgeon.torch.subject import subject

OPSETS = {"dynamo": (18, 20, 23), "torchscript": (14, 17, 18, 20)}  # what is written changes between these


def pattern(
    what: Any,
    *inputs: torch.Tensor,
    arguments: Mapping[str, Any] | None = None,
    exporters: Sequence[str] | None = None,
    opsets: Sequence[int] | None = None,
    vary: Mapping[str, Any] | None = None,
    placeholders: Iterable[Any] | Mapping[Any, str] = (),
    free_sizes: bool = False,
) -> list[Callable[..., Any]]:
    """Pattern functions for what the exporters write for a module or function, for use in a rule.

    It is exported at least twice, with other sizes, other weights and other hyper-parameters: what differs is a hole,
    what stays is a literal.  The parameters of a pattern are the tensors that the operation takes, then its weights,
    then its numbers, under the names that torch has for them (`eps` is `epsilon`).  Forms that are equal come once.

    Args:
        what: an nn.Module; a class of them, or a factory, with its `arguments`; a function of tensors; or the name of
            one, as in "torch.nn:GELU".
        inputs: example tensors, in order.
        arguments: what a class or factory is called with, by name.
        exporters: "dynamo", "torchscript" or both; those that can write it, where none is named.
        opsets: of ai.onnx; those at which the exporters change what they write, where none is named.
        vary: other values of hyper-parameters, by the name of an argument or of a float that the module keeps; {}
            changes none, None changes every float, and integers among `arguments`.  Sizes are changed where the
            operation takes it: integer arguments that say a size change along.
        placeholders: as for `surgeon.torch.export`.
        free_sizes: export also with the sizes free that can vary, for models exported so: where a size is worked out
            from a shape, the exporters write other nodes.

    Returns:
        The functions, one a form: what `@rule(patterns=...)` takes.

    Raises:
        UsageError: inputs that the operation does not take, exports of different structure (it says which nodes
            differ), and what no pattern can say.
        ExportError: an exporter fails; one that cannot write it is left out, where it was not named.

    Examples:
        >>> import torch, surgeon.torch
        >>> found = surgeon.torch.pattern(torch.nn.Hardswish(), torch.randn(2, 3), exporters=["torchscript"])
        >>> len(found)
        1
    """
    lesson = learn(
        what,
        *inputs,
        arguments=arguments,
        exporters=exporters,
        opsets=opsets,
        vary=vary,
        placeholders=placeholders,
        free_sizes=free_sizes,
    )
    return lesson.functions


def learn(
    what: Any,
    *inputs: torch.Tensor,
    arguments: Mapping[str, Any] | None = None,
    exporters: Sequence[str] | None = None,
    opsets: Sequence[int] | None = None,
    vary: Mapping[str, Any] | None = None,
    placeholders: Iterable[Any] | Mapping[Any, str] = (),
    free_sizes: bool = False,
    title: str | None = None,
) -> Lesson:
    """The forms that exporters write, with `text()`, `functions` and a skeleton `rule`.

    Args:
        what: an nn.Module; a class of them, or a factory, with its `arguments`; a function of tensors; or the name of
            one, as in "torch.nn:GELU".
        inputs: example tensors, in order.
        arguments: what a class or factory is called with, by name.
        exporters: "dynamo", "torchscript" or both; those that can write it, where none is named.
        opsets: of ai.onnx; those at which the exporters change what they write, where none is named.
        vary: other values of hyper-parameters, by the name of an argument or of a float that the module keeps; {}
            changes none, None changes every float, and integers among `arguments`.  Sizes are changed where the
            operation takes it: integer arguments that say a size change along.
        placeholders: as for `surgeon.torch.export`.
        free_sizes: export also with the sizes free that can vary, for models exported so: where a size is worked out
            from a shape, the exporters write other nodes.
        title: what to call the operation in the text.

    Returns:
        The lesson.

    Raises:
        UsageError: as for `pattern`.
        ExportError: as for `pattern`.

    Examples:
        >>> import torch, surgeon.torch
        >>> lesson = surgeon.torch.learn(torch.nn.Hardswish(), torch.randn(2, 3), exporters=["torchscript"])
        >>> len(lesson.functions)
        1
    """
    strangers = [item for item in inputs if not isinstance(item, torch.Tensor)]
    if strangers or not inputs:
        found = f"{type(strangers[0]).__name__}" if strangers else "none"
        raise UsageError(f"Example inputs are tensors, and {found} was given; give one for each tensor it takes.")
    return learned(
        subject(what, dict(arguments or {}), title),
        inputs,
        [
            ExportMode(name, opset)
            for name in exporters or OPSETS
            for opset in sorted(set(opsets or OPSETS.get(name, (18,))))
        ],
        vary,
        placeholders,
        free_sizes=free_sizes,
        is_strict=exporters is not None and opsets is not None,
    )
