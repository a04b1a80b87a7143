"""The sizes of a decoder's inputs, tied to each other: each row of a batch is one sequence without padding."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from onnx import TensorShapeProto

from surgeon.analysis.assumptions.assumption import LEFT_PADDED, NO_PADDING, Assumption
from surgeon.analysis.assumptions.model_assumptions import KEY, assumptions_of, declare
from surgeon.analysis.decoder_graph import Decoder, decoder_of
from surgeon.errors import Unavailable, UsageError
from surgeon.pipeline.editing.declared_dims import dims_of
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit
from surgeon.shapes.algebra.size_expressions import Size, parse_size, substitute, symbol

BATCH, ROWS, PAST = (symbol(name) for name in ("batch", "sequence", "past"))


@dataclass(frozen=True, slots=True)
class SequenceSizes(Edit):
    """Declare that each row of a decoder's batch is one sequence without padding, unless it is padded on the left.

    The sizes of a batch, of new and of past tokens get one name each, and the mask has a column for each token.
    Exporters write a separate size for each input.

    Raises:
        UsageError: the model is not a decoder with a cache.

    Examples:
        >>> import surgeon
        >>> surgeon.edits.SequenceSizes().flag
        'sequence-sizes'
    """

    flag = "sequence-sizes"
    metavar = ""

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Rename the sizes, and assume that the mask holds ones."""
        decoder = found_decoder(draft)
        wanted: dict[str, Size] = {}
        for declared, sizes in _declared(draft, decoder):
            for dim, size in zip(declared, sizes, strict=False):
                name = dim.dim_param.strip()
                if name and parse_size(name) == symbol(name):
                    wanted.setdefault(name, size)
        for new in set(wanted.values()):
            draft.claim.dims[str(new)] = tuple(old for old, size in wanted.items() if size == new)
        for dim in dims_of(draft.skeleton):
            own = parse_size(dim.dim_param) if dim.dim_param else 0
            size = substitute(own, wanted)
            if isinstance(size, int) and dim.dim_param:
                dim.dim_value = size
            elif size != own:
                dim.dim_param = str(size)
        known = assumptions_of(draft.skeleton).get(decoder.mask or "", Assumption())
        if decoder.mask is not None and (LEFT_PADDED not in known.words or NO_PADDING in known.words):
            declare(draft.skeleton, [f"{decoder.mask}: {NO_PADDING}"])
        draft.changed()
        return (f"sizes are {', '.join(map(str, dict.fromkeys(wanted.values())))}",) if wanted else ()


def found_decoder(draft: ModelDraft) -> Decoder:
    """The decoder that a model is.  Raises UsageError if it is none."""
    found = decoder_of(draft.index)
    if isinstance(found, Unavailable):
        why = f"The model is not a decoder with a cache, because {found.reason}"
        raise UsageError(f"{why}. Export a decoder of tokens, with its cache as inputs and outputs.")
    return found


def set_padding_assumption(draft: ModelDraft, decoder: Decoder, words: str) -> None:
    """Replace the assumption on the mask: clients pad batches.  words: those of the user, or none."""
    kept = [item for item in draft.skeleton.metadata_props if item.key != f"{KEY}{decoder.mask}"]
    del draft.skeleton.metadata_props[:]
    draft.skeleton.metadata_props.extend(kept)
    if words:
        declare(draft.skeleton, [f"{decoder.mask}: {words}"])


def _declared(
    draft: ModelDraft, decoder: Decoder
) -> Iterator[tuple[Iterable[TensorShapeProto.Dimension], tuple[Size, ...]]]:
    """The dims of each input, with the sizes that they have."""
    ports = {port.name: port.type.tensor_type.shape.dim for port in draft.graph.input}
    tokens = BATCH, ROWS
    yield ports[decoder.ids], tokens
    for cache in decoder.caches:
        for name in (cache.past_key, cache.past_value):
            yield ports[name], (BATCH, cache.heads, PAST, cache.size)
    if decoder.positions is not None:
        yield ports[decoder.positions], tokens
    if decoder.mask is not None:
        yield ports[decoder.mask], (BATCH, PAST + ROWS)
