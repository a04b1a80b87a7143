"""Facts that a graph does not have: special tokens and the context, from options or from the folder of a tokenizer."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from surgeon.errors import ModelFileError, UsageError

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt")
"""Files of which a tokenizer has at least one."""
_FILES = (
    *_TOKENIZERS,
    *("merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("chat_template.jinja", "chat_template.json"),
)
_CONTEXTS = ("max_position_embeddings", "n_positions", "max_seq_len", "model_max_length")
"""Keys of the context in files of transformers."""
_MOST = 1 << 31  # transformers writes 1e30 for an unknown length


class TextFacts(NamedTuple):
    """Special tokens, and the number of tokens that a decoder may see."""

    eos: tuple[int, ...] = ()
    """Tokens that end a text."""
    pad: int | None = None
    """Token of padding."""
    bos: int | None = None
    """Token that begins a text."""
    context: int | None = None
    """Largest number of past and new tokens."""

    def over(self, other: "TextFacts") -> "TextFacts":
        """These facts; for each that is unknown, the other."""
        pad, bos, context = (there if mine is None else mine for mine, there in zip(self[1:], other[1:], strict=True))
        return TextFacts(self.eos or other.eos, pad, bos, context)

    def require_tokens(self, vocabulary: int) -> None:
        """Raise UsageError for a token that the vocabulary does not have."""
        named = {"eos": self.eos, "pad": (self.pad,), "bos": (self.bos,)}
        for name, tokens in named.items():
            for token in tokens:
                if token is not None and not 0 <= token < vocabulary:
                    raise UsageError(f"{name} {token} is not a token: the graph has {vocabulary:,} tokens, from 0 on.")


def tokenizer_facts(folder: Path) -> TextFacts:
    """The facts in the files of a tokenizer; those for generation come first.

    Raises ModelFileError for a folder without a tokenizer, or with a file that is not JSON.
    """
    if not folder.is_dir() or not any((folder / name).is_file() for name in _TOKENIZERS):
        raise ModelFileError(f"{folder} is not the folder of a tokenizer: it has no {_TOKENIZERS[0]}.")
    ids = dict(_added_tokens(folder))
    found = TextFacts()
    for name in ("generation_config.json", "config.json", "tokenizer_config.json"):
        held = _read(folder / name)
        for part in (held, held.get("text_config")):
            if isinstance(part, Mapping):
                found = found.over(_facts(part, ids))
    return found


def tokenizer_files(folder: Path) -> list[Path]:
    """The files of a tokenizer that a program needs."""
    return [folder / name for name in _FILES if (folder / name).is_file()]


def _facts(held: Mapping[str, Any], ids: Mapping[str, int]) -> TextFacts:
    """The facts in one file.  ids: of special tokens by text."""

    def tokens(name: str) -> tuple[int, ...]:
        known, text = held.get(f"{name}_token_id"), held.get(f"{name}_token")
        text = text.get("content") if isinstance(text, Mapping) else text
        listed = known if isinstance(known, list) else [known if known is not None else ids.get(str(text))]
        return tuple(token for token in listed if isinstance(token, int))

    (pad, *_), (bos, *_) = (tokens(name) or (None,) for name in ("pad", "bos"))
    sizes = [size for key in _CONTEXTS if isinstance(size := held.get(key), int) and 0 < size < _MOST]
    return TextFacts(tokens("eos"), pad, bos, sizes[0] if sizes else None)


def _added_tokens(folder: Path) -> Iterator[tuple[str, int]]:
    """The special tokens of a tokenizer, by text."""
    for token in _read(folder / "tokenizer.json").get("added_tokens", ()):
        yield token["content"], token["id"]
    for number, token in _read(folder / "tokenizer_config.json").get("added_tokens_decoder", {}).items():
        yield token["content"], int(number)


def _read(path: Path) -> Mapping[str, Any]:
    """A file of JSON; empty if it does not exist."""
    try:
        held = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError as error:
        raise ModelFileError(f"{path} is not JSON ({error}). Save the tokenizer again.") from None
    return held if isinstance(held, Mapping) else {}


def given_facts(eos: int | Sequence[int], pad: int | None, bos: int | None, context: int | None) -> TextFacts:
    """The facts of options.  Raises UsageError for a value that is not an integer, or not positive."""
    found = TextFacts((eos,) if isinstance(eos, int) else tuple(eos), pad, bos, context)
    for name, value in (*(("eos", token) for token in found.eos), ("pad", pad), ("bos", bos), ("context", context)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise UsageError(f"{name} must be an integer, not {value!r}.")
    if context is not None and context < 1:
        raise UsageError(f"context must be at least 1, not {context}.")
    return found
