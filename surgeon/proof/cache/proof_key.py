"""Proofs that are shared by models: what of an experiment is the same wherever its region stands, and a store for that.

Only what is proved is shared: why something fails or is open is told of the model at hand.
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

_OF_RUNS = ("jobs", "proof_time", "implementations")  # options that do not decide what is proved
# Fields of text that names tensors or nodes; that of others names dims.
_NAMES = defaultdict[str, tuple[str, ...]](
    tuple,
    ProofCase=(
        "outputs",
        "bodies_before",
        "bodies_after",
        "always_empty",
        "sign_sensitive",
        "stated_shapes",
        "replacement_only",
    ),
    CaseInput=("name",),
)
_UNKNOWN = re.compile(r"\?[^\s\])*+,]*\[\]|\?[\w.:/-]+")


class ProofStore(Protocol):
    """Where proofs of other models are."""

    def find(self, key: str) -> SiteProof | None:
        """The proof of an experiment, its outputs called by their numbers."""
        ...

    def keep(self, key: str, proof: SiteProof) -> None:
        """Keep one for others."""
        ...


_store: ContextVar[ProofStore | None] = ContextVar("proofs", default=None)


@contextmanager
def use_proof_store(store: ProofStore | None) -> Iterator[None]:
    """Share proofs with other models meanwhile."""
    token = _store.set(store)
    try:
        yield
    finally:
        _store.reset(token)


def current_store() -> ProofStore | None:
    """The store of proofs, where they are shared."""
    return _store.get()


def find_proof(experiment: ProofCase, key: str | None, store: ProofStore) -> SiteProof | None:
    """The proof that another model has for this experiment, in the words of this one.  key: of `proof_key`."""
    found = None if key is None else store.find(key)
    return None if found is None else found.at(dict(zip(_numbers(experiment), experiment.outputs, strict=True)))


def store_proof(experiment: ProofCase, key: str | None, proof: SiteProof, store: ProofStore) -> None:
    """Keep a proof, if it is one that others can use."""
    if key is not None and proof.outcome is Outcome.PROVED:
        store.keep(key, proof.at(dict(zip(experiment.outputs, _numbers(experiment), strict=True))))


def _numbers(experiment: ProofCase) -> list[str]:
    return [f"output {place}" for place in range(len(experiment.outputs))]


def proof_key(experiment: ProofCase) -> str | None:
    """What experiments have in common that prove the same of equal regions, whatever their tensors are called.

    None where a proof rests on more than can be told: on what users implement.
    """
    minis, own = experiment.models, available()
    if experiment.options.custom_ops or holds_any(minis.before, own) or holds_any(minis.after, own):
        return None
    canon = _Canon((minis.before, minis.after))
    return blake2b(repr(canon.told(experiment)).encode(), digest_size=24).hexdigest()


class _Canon:
    """Names by the order of their first use, but where bodies of nodes, or functions, have names of their own."""

    def __init__(self, models: Sequence[ModelProto]) -> None:
        self._names: dict[str, str] = {}
        self._sizes: dict[str, str] = {}
        if not any(model.functions or _has_bodies(model) for model in models):
            for name in (name for model in models for name in _names_of(model)):
                self._names.setdefault(name, f"t{len(self._names)}")

    def told(self, value: Any, named: bool = False) -> Hashable:
        """A value without names.  named: whether its text is names of tensors and nodes, and not of dims."""
        if isinstance(value, str):
            return self._names.get(value, value) if named else value
        if isinstance(value, ModelProto):
            return self._model(value)
        if isinstance(value, ProtoMessage):
            return _digest(value.SerializeToString(deterministic=True))
        if isinstance(value, np.ndarray):
            numbers = [self.told(item) for item in value.flat] if value.dtype == object else _digest(value.tobytes())
            return (value.dtype.str, value.shape, repr(numbers))
        if dataclasses.is_dataclass(value):
            fields = [item.name for item in dataclasses.fields(value) if item.name not in _OF_RUNS]
            inside = [self.told(getattr(value, name), name in _NAMES[type(value).__name__]) for name in fields]
            return (type(value).__name__, *inside)
        if isinstance(value, Mapping):
            return tuple(sorted((repr(self.told(key, named)), repr(self.told(item))) for key, item in value.items()))
        if isinstance(value, set | frozenset):
            return tuple(sorted(repr(self.told(item, named)) for item in value))
        if isinstance(value, list | tuple):
            return tuple(self.told(item, named) for item in value)
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
