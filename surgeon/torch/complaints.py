"""What went wrong in an exporter of torch, in one sentence; the exporter's own error is kept as the cause."""

import re
from collections.abc import Iterator

from surgeon.errors import NO_TEMPORARY, ExportError, SurgeonError, UsageError, lacks_temporary

_NO_FUNCTION = re.compile(
    r"No ONNX function found for <(?:OpOverload|HigherOrderOperator)\(op='([\w:.]+)'(?:, overload='(\w+)')?"
)
_NO_SYMBOLIC = re.compile(r"the operator '([\w:]+)' to ONNX opset version (\d+) is not supported")
_NO_NAMESPACE = re.compile(r"on an operator with unrecognized namespace ([\w:]+)")
_NO_FAKE = re.compile(
    r"no fake impl registered for <(?:OpOverload|CustomOpDef)\(op='([\w:.]+)'|fake impl[^']*'?([\w]+::[\w.]+)'?"
)
_NOISE = ("Failed to ", "Error when ", "Error calling ", "# ", "\x1b[96m[")


def complaint(error: BaseException, exporter: str, module: str) -> SurgeonError:
    """The error to raise instead of what an exporter raised; a SurgeonError within it is told as it is."""
    chain = list(_chain(error))
    own = next((one for one in chain if isinstance(one, SurgeonError)), None)
    if own is not None:
        return own
    if any(map(lacks_temporary, chain)):
        return UsageError(NO_TEMPORARY)
    text = "\n".join(str(one) for one in chain)
    if missing := _NO_FUNCTION.search(text):
        name = missing[1].replace(".", "::", 1) if "::" not in missing[1] else missing[1]
        return ExportError(_untranslated(exporter, module, name))
    if missing := _NO_SYMBOLIC.search(text):
        return ExportError(_untranslated(exporter, module, missing[1], f" at opset {missing[2]}"))
    if missing := _NO_NAMESPACE.search(text):
        return ExportError(_untranslated(exporter, module, missing[1]))
    if missing := _NO_FAKE.search(text):
        name = missing[1].replace(".", "::", 1)
        return ExportError(
            f"{name} has no fake kernel, so the exporter cannot tell the shapes after it; register one with "
            f"torch.library.register_fake({name!r})."
        )
    return ExportError(f"The {exporter} exporter cannot export {module}: {_sentence(chain)}.")


def _untranslated(exporter: str, module: str, name: str, where: str = "") -> str:
    return (
        f"The {exporter} exporter cannot translate {name}, which {module} comes to{where}; name it, or the operator "
        f"that decomposes into it, as a placeholder: placeholders=[{name!r}]."
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what caused it, down to the first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _sentence(chain: list[BaseException]) -> str:
    """The first line of the innermost error that says something."""
    for one in reversed(chain):
        lines = [line.strip() for line in str(one).splitlines() if line.strip()]
        telling = [line for line in lines if not line.startswith(_NOISE)]
        if telling:
            said = f"{telling[0]} {telling[1].lstrip('- ')}" if telling[0].endswith(":") and telling[1:] else telling[0]
            return f"{type(one).__name__}: {said.rstrip('.:;')}"
    return type(chain[-1]).__name__
