"""Proofs that models share: a key of a proof case that is independent of names, and access to a store.

Only proved cases are shared.  The reason of a failed or unproved one refers to its own model.
"""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
from google.protobuf.message import Message as ProtoMessage
from onnx import ModelProto

from surgeon.ops.traversal import GRAPHS, holds_any
from surgeon.proof.check_result import Outcome
from surgeon.proof.proof_case import ProofCase
from surgeon.proof.site_proof import SiteProof
from surgeon.runtime.implementations.implementation import available

# Fields that do not affect the result of a proved case; more time means larger sizes.
_OF_RUNS = ("jobs", "cache", "implementations", "explains")
# Fields with names of tensors or nodes; text in other fields names dims.
_NAMES = defaultdict[str, tuple[str, ...]](
    tuple,
    ProofCase=(
        "outputs",
        "bodies_before",
        "bodies_after",
        "always_empty",
        "sign_sensitive",
        "stated_shapes",
        "output_dtypes",
        "replacement_only",
    ),
    CaseInput=("name",),
)
_UNKNOWN = re.compile(r"\?[^\s\])*+,]*\[\]|\?[\w.:/-]+")


class ProofStore(Protocol):
    """A store of proofs of other models."""

    def find(self, key: str) -> SiteProof | None:
        """The proof of a case, with its outputs numbered."""
        ...

    def keep(self, key: str, proof: SiteProof) -> None:
        """Store a proof."""
        ...


_store: ContextVar[ProofStore | None] = ContextVar("proofs", default=None)


@contextmanager
def use_proof_store(store: ProofStore | None) -> Iterator[None]:
    """Share proofs with other models in this context."""
    token = _store.set(store)
    try:
        yield
    finally:
        _store.reset(token)


def current_store() -> ProofStore | None:
    """The store of this context; None if proofs are not shared."""
    return _store.get()


def find_proof(case: ProofCase, key: str | None, stores: Sequence[ProofStore]) -> SiteProof | None:
    """The stored proof of this case, with this case's names, of the first store that has it.  key: of `proof_key`."""
    found = None if key is None else next(filter(None, (store.find(key) for store in stores)), None)
    return None if found is None else found.at({number: name for name, number in _numbers(case).items()})


def store_proof(case: ProofCase, key: str | None, proof: SiteProof, stores: Sequence[ProofStore]) -> None:
    """Store a proof if it can be shared."""
    if key is not None and proof.outcome is Outcome.PROVED:
        shared = proof.at(_numbers(case))
        for store in stores:
            store.keep(key, shared)


def _numbers(case: ProofCase) -> dict[str, str]:
    """Numbers in place of names: of the outputs, and of the tensors by which decisions are named."""
    inner = dict.fromkeys(name for node in case.models.before.graph.node for name in node.output[:1])
    numbers = {name: f"tensor {place}" for place, name in enumerate(inner)}
    return numbers | {name: f"output {place}" for place, name in enumerate(case.outputs)}


def proof_key(case: ProofCase) -> str | None:
    """A key that is equal for cases of equal regions, with any names of tensors.

    None if the proof depends on users' implementations or on another device, which a key cannot describe.
    """
    sides, own = case.models, available()
    if case.options.custom_ops or case.options.runtime is not None:
        return None
    if holds_any(sides.before, own) or holds_any(sides.after, own):
        return None
    canonical = _Canonical((sides.before, sides.after))
    return blake2b(repr(canonical.anonymous(case)).encode(), digest_size=24).hexdigest()


class _Canonical:
    """Numbers for names, by first use; names stay where nodes have bodies or the models have functions."""

    def __init__(self, models: Sequence[ModelProto]) -> None:
        self._names: dict[str, str] = {}
        self._sizes: dict[str, str] = {}
        if not any(model.functions or _has_bodies(model) for model in models):
            for name in (name for model in models for name in _names_of(model)):
                self._names.setdefault(name, f"t{len(self._names)}")

    def anonymous(self, value: Any, named: bool = False) -> Hashable:
        """A value without names.  named: whether its text names tensors and nodes, and not dims."""
        if isinstance(value, str):
            return self._names.get(value, value) if named else value
        if isinstance(value, ModelProto):
            return self._model(value)
        if isinstance(value, ProtoMessage):
            return _digest(value.SerializeToString(deterministic=True))
        if isinstance(value, np.ndarray):
            numbers = (
                [self.anonymous(item) for item in value.flat] if value.dtype == object else _digest(value.tobytes())
            )
            return (value.dtype.str, value.shape, repr(numbers))
        if dataclasses.is_dataclass(value):
            fields = [item.name for item in dataclasses.fields(value) if item.name not in _OF_RUNS]
            inside = [self.anonymous(getattr(value, name), name in _NAMES[type(value).__name__]) for name in fields]
            return (type(value).__name__, *inside)
        if isinstance(value, Mapping):
            return tuple(
                sorted((repr(self.anonymous(key, named)), repr(self.anonymous(item))) for key, item in value.items())
            )
        if isinstance(value, set | frozenset):
            return tuple(sorted(repr(self.anonymous(item, named)) for item in value))
        if isinstance(value, list | tuple):
            return tuple(self.anonymous(item, named) for item in value)
        return _UNKNOWN.sub(lambda found: self._sizes.setdefault(found[0], f"?{len(self._sizes)}"), repr(value))

    def _model(self, model: ModelProto) -> Hashable:
        copy = ModelProto()
        copy.CopyFrom(model)
        if self._names:
            copy.graph.name = ""
            for port in (*copy.graph.input, *copy.graph.output, *copy.graph.value_info, *copy.graph.initializer):
                port.name = self._names[port.name]
            for node in copy.graph.node:
                node.input[:] = [self._names.get(name, "") for name in node.input]
                node.output[:] = [self._names.get(name, "") for name in node.output]
                node.name = self._names.get(node.name, "")
                node.doc_string = ""
                del node.metadata_props[:]
        return _digest(copy.SerializeToString(deterministic=True))


def _has_bodies(model: ModelProto) -> bool:
    return any(item.type in GRAPHS for node in model.graph.node for item in node.attribute)


def _names_of(model: ModelProto) -> Iterable[str]:
    graph = model.graph
    for node in graph.node:
        yield from filter(None, (*node.input, *node.output, node.name))
    for port in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        yield port.name


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=24).hexdigest()
