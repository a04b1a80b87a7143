"""Whether ONNX Runtime loads an output model, if it loads the original."""

import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from surgeon.file.external_data.self_reference import MIN_BYTES, self_referencing_model
from surgeon.file.io.cache_folder import cache_folder
from surgeon.file.model import InMemoryModel, Model
from surgeon.file.save import OutputModel
from surgeon.ops.traversal import expanded_count, node_label, nodes_of
from surgeon.proof.check_options import CheckOptions
from surgeon.target_registry import target_of
from surgeon.text import join_first

if TYPE_CHECKING:
    from surgeon.runtime.sessions.ort_session import Lack, SessionError

NEITHER = "ONNX Runtime loads neither the original nor the result"
LARGE = 1 << 26
"""Bytes of a file from which its large tensors are passed by reference instead of being read."""
MAX_NODES = 100_000
"""Nodes, with functions inlined, up to which a model is loaded: 40,000 take ONNX Runtime 1 s, 120,000 take 9 s."""
NAMED = 2  # nodes in a message; it counts the others
_NAMELESS = re.compile(r"(?:for |operator \()(?P<op>\w+)\)?(?:\(\d+\) node with name ''| in node \(\))")


class LoadAnswer(NamedTuple):
    """Whether ONNX Runtime loads a result."""

    fault: str = ""
    """Why the result must not be written, as a clause; "" if it may."""
    note: str = ""
    """That the original does not load either, and why; "" if it does."""


def tolerated_lacks(target: str, ep: str | None) -> frozenset["Lack"]:
    """The lacks of ONNX Runtime that do not matter: foreign ops, and kernels where another provider runs the result."""
    first = next((one.name for one in target_of(target).providers), "cpu")
    return frozenset({"op"} if (ep or first) == "cpu" else {"op", "kernel"})


FOREIGN_OPS: frozenset["Lack"] = frozenset({"op"})


def loading(
    originals: Iterable[OutputModel],
    made: OutputModel,
    options: CheckOptions,
    tolerated: Collection["Lack"] = FOREIGN_OPS,
    folder: Path | None = None,
    node_count: int | None = None,
) -> LoadAnswer:
    """Load a result; where ONNX Runtime refuses it, load the originals.

    A worker opens a session and runs nothing.  A result of more than MAX_NODES nodes is not loaded.  A result for
    which memory or time runs out counts as loaded.  tolerated: lacks that do not matter.  folder: of the data files of
    a result in memory.  node_count: the nodes of the result, functions inlined, if they are counted already.
    """
    if node_count is None:
        with Model.open(made) if isinstance(made, Path) else InMemoryModel(made) as opened:
            node_count = expanded_count(opened.skeleton)
    if node_count > MAX_NODES:
        return LoadAnswer()
    fact = None
    if options.cache and not options.custom_ops and cache_folder() is not None:
        from surgeon.proof.cache.notes import (  # not at the top: a model without changes is not loaded
            is_loaded,
            is_noted,
        )

        fact = is_loaded(made, LARGE)
        if is_noted(fact):
            return LoadAnswer()
    refused = refusal(made, options, folder=folder, fact=fact)
    if refused is None or refused.lacks == "memory" or (refused.is_unsupported and not refused.lacks):
        return LoadAnswer()
    why = _with_location(refused.message.rstrip("."), made)
    ways = ((original, optimised) for original in originals for optimised in (False, True))
    if any(refusal(original, options, optimised=optimised) for original, optimised in ways):
        note = f"{NEITHER}: {why}"
        return LoadAnswer(note="" if refused.lacks in tolerated and "kernel" in tolerated else note)
    if refused.lacks in tolerated:
        return LoadAnswer()
    return LoadAnswer(f"ONNX Runtime loads the original but not the result: {why}")


def refusal(
    model: OutputModel,
    options: CheckOptions,
    *,
    optimised: bool = False,
    folder: Path | None = None,
    fact: str | None = None,
) -> "SessionError | None":
    """ONNX Runtime's reason not to load a model; None if it loads it by itself, or hit a limit.

    optimised: with its own optimisations, which infer more sizes and may find that they do not fit.  folder: of the
    data files of a model in memory.  fact: to be noted if it loads.
    """
    # Not at the top: runs that change nothing do not need them.
    from surgeon.runtime.sessions.isolated_session import IsolatedRuntime
    from surgeon.runtime.sessions.ort_session import OrtSession, SessionError

    given, home = _without_weights(model)
    away = IsolatedRuntime(options.required(), options.run_time)
    try:
        with away.open(given, optimised=optimised, only_loads=True, folder=folder or home) as whole:
            if whole.name == OrtSession.name:
                if fact is not None:
                    from surgeon.proof.cache.notes import note

                    note(fact)
                return None
            return SessionError("The model runs in parts, with implementations in Python.", is_unsupported=True)
    except SessionError as refused:
        return None if refused.hit_limit else refused


def _without_weights(model: OutputModel) -> tuple[OutputModel, Path | None]:
    """A large file's model in memory that refers to the file for large tensors, with its folder; else the model."""
    if not isinstance(model, Path) or model.stat().st_size < LARGE:
        return model, None
    with Model.open(model, threshold=MIN_BYTES) as opened:
        made = self_referencing_model(opened)
    return (model, None) if made is None else (made, model.absolute().parent)


def _with_location(line: str, made: OutputModel) -> str:
    """ONNX Runtime's message, with the location of a nameless node that it mentions."""
    found = _NAMELESS.search(line)
    if found is None:
        return line
    with Model.open(made) as opened:
        nodes = [node for node in nodes_of(opened.skeleton) if node.op_type == found["op"] and not node.name]
        labels = [node_label(node) for node in nodes]
    return f"{line}: {found['op']} at {join_first(labels, NAMED)}" if labels else line
