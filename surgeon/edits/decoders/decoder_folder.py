"""`surgeon.decoder`: from a decoder with a cache to a folder from which onnxruntime-genai generates text."""

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from surgeon.analysis.assumptions.assumption import LEFT_PADDED, NO_PADDING, Assumption
from surgeon.analysis.assumptions.model_assumptions import assumptions_of
from surgeon.analysis.decoder_graph import Decoder
from surgeon.edits.decoders.cache_names import give_templates
from surgeon.edits.decoders.decoding_proof import DecodingProof, OnTexts
from surgeon.edits.decoders.genai_config import completed_facts, genai_config, require_runnable, shares_buffers
from surgeon.edits.decoders.last_logits import LastLogits
from surgeon.edits.decoders.rotary_in_attention import RotaryInAttention
from surgeon.edits.decoders.sequence_sizes import SequenceSizes, found_decoder, set_padding_assumption
from surgeon.edits.decoders.tokenizer_folder import TextFacts, given_facts, tokenizer_facts, tokenizer_files
from surgeon.errors import CheckFailed, UsageError
from surgeon.file.model import Model
from surgeon.file.model_like import ModelLike, opened_to_run, resolve_model
from surgeon.file.staged_folder import staged_folder
from surgeon.pipeline.acceptance.near_misses import nearest
from surgeon.pipeline.checks import Checks, Progress, Saving
from surgeon.pipeline.driver import run
from surgeon.pipeline.editing.draft import ModelDraft, declaring
from surgeon.pipeline.editing.edit import Edit
from surgeon.pipeline.editing.edit_group import edit_groups
from surgeon.pipeline.reports.report import UNCHANGED, Report
from surgeon.pipeline.rewriting.rollback import rollback_message
from surgeon.pipeline.rewriting.rule_run import gc_paused
from surgeon.pipeline.rewriting.rule_set import RuleSet
from surgeon.pipeline.transform import Compound, Transform
from surgeon.precision.convert import BLOCK, WEIGHTS, conversion_step
from surgeon.proof.check_options import CheckOptions, resolve_output
from surgeon.runtime.inputs.user_inputs import InputSet, read_inputs
from surgeon.text import format_count

MODEL, CONFIG = "model.onnx", "genai_config.json"
DecoderCheck: TypeAlias = Literal["sites", "model", "both", "decode", "none"]
CHECKS = ("sites", "model", "both", "decode", "none")
DecoderWeights: TypeAlias = Literal["int4", "int8", "float16", "keep"]
RULES = "decoder"
"""The group of rules that run first."""
FUSING = ("placeholders", "cleanup", "static_reshape", "scale_after_mask", "sequence_attention")
"""Those of them that prepare the fusion of attention with its cache, and the rule that does it."""
TIDYING = "cleanup"
"""The group of rules that run after rotary embeddings are in the attentions."""
TARGET = "ort"
"""The target whose rules run: onnxruntime-genai runs models with ONNX Runtime."""


@dataclass(slots=True)
class DecoderReport(Report):
    """The result of `surgeon.decoder`; its steps are a rewrite, unless the graph is kept, and the names of caches."""

    JSON = "source output outcome assumptions? config check? parts=steps written seconds"

    decoder: Decoder | None = None
    """The decoder in the folder."""
    config: dict[str, Any] = field(default_factory=dict)
    """The contents of `genai_config.json`."""
    size: int = 0
    """Nodes of the model in the folder."""
    unfused: str = ""
    """Why a cache is not inside of a GroupQueryAttention; empty if each is, or if no rules ran."""

    @property
    def nodes(self) -> tuple[int, int]:
        """Nodes before the first step, and of the model in the folder."""
        known = [step.nodes for step in self.steps if any(step.nodes)] or [(0, 0)]
        return known[0][0], self.size or known[-1][1]

    @property
    def own_outcome(self) -> str:
        """The outcome of the comparison of decoding; unchanged without one."""
        return UNCHANGED if self.check is None else self.check.outcome.value

    @property
    def shares_buffers(self) -> bool:
        """Whether the past and the present of a cache are one buffer."""
        return bool(self.config["search"]["past_present_share_buffer"])

    def __repr__(self) -> str:
        buffers = f", {'shared' if self.shares_buffers else 'separate'} buffers" if self.config else ""
        return f"<DecoderReport nodes {' -> '.join(map(str, self.nodes))}{buffers}; {self.outcome}>"


@dataclass(frozen=True, slots=True)
class GenaiFolder(Edit):
    """Give caches names by layer, and write the files that onnxruntime-genai reads next to a model."""

    context: int | None = None
    """Largest number of past and new tokens."""
    eos: tuple[int, ...] = ()
    """Tokens that end a text."""
    pad: int | None = None
    """Token of padding."""
    bos: int | None = None
    """Token that begins a text."""
    tokenizer: str = ""
    """Folder of a tokenizer, which is copied; it has the tokens and the context that are not given."""
    assumed: str = ""
    """The words that the user assumes of the mask."""
    flag = "genai"
    metavar = ""

    def decoder_in(self, draft: ModelDraft) -> tuple[Decoder, TextFacts]:
        """The decoder and all facts for its configuration.  Raises UsageError for anything that is missing."""
        found = found_decoder(draft)
        require_runnable(found, draft.skeleton)
        facts = TextFacts(self.eos, self.pad, self.bos, self.context)
        facts = facts.over(tokenizer_facts(Path(self.tokenizer))) if self.tokenizer else facts
        return found, completed_facts(found, facts)

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Rename caches, if their names have no template."""
        found = self.decoder_in(draft)[0]
        set_padding_assumption(draft, found, self.assumed)
        templates = give_templates(draft, found)
        return (f"caches are renamed to {', '.join(templates)}",) if templates else ()

    def write(self, folder: Path, query_heads: int | None) -> tuple[Decoder, dict[str, Any], int]:
        """Write the configuration and the files of the tokenizer to the folder of the model.

        query_heads: None if no graph says them.  Returns the decoder, the configuration, and the number of nodes.
        """
        with Model.open(folder / MODEL) as model:
            draft = ModelDraft(model)
            found, facts = self.decoder_in(draft)
            count, shares = len(draft.graph.node), shares_buffers(found, draft.index)
        config = genai_config(found, facts, MODEL, shares=shares, query_heads=query_heads)
        (folder / CONFIG).write_text(f"{json.dumps(config, indent=2)}\n", encoding="utf-8")
        for path in tokenizer_files(Path(self.tokenizer)) if self.tokenizer else ():
            shutil.copyfile(path, folder / path.name)
        return found, config, count


def decoder(
    source: ModelLike,
    output: str | os.PathLike[str],
    *,
    context: int | None = None,
    eos: int | Sequence[int] = (),
    pad: int | None = None,
    bos: int | None = None,
    tokenizer: str | os.PathLike[str] | None = None,
    keep_graph: bool = False,
    last_logits: bool = False,
    weights: DecoderWeights = "keep",
    block: int = BLOCK,
    max_error: float | None = None,
    accuracy_level: int | None = None,
    check: DecoderCheck | None = None,
    require_proof: bool = False,
    force: bool = False,
    options: CheckOptions | None = None,
    progress: Progress | None = None,
) -> DecoderReport:
    """Write the folder of a decoder from which onnxruntime-genai generates text: the model, its data and its settings.

    The decoder has its cache of keys and values as inputs and outputs, which surgeon finds in the nodes.  Rules for
    ONNX Runtime run first, and each replacement is proved.

    Args:
        source: a path, or a model in memory.
        output: a new or empty folder, which appears as a whole or not at all.
        context: largest number of past and new tokens.  Default: that of the tokenizer's folder, or the rows of a table
            of positions.
        eos: token that ends a text.
        pad: token of padding.  Default: that of the tokenizer, or the first of `eos`.
        bos: token that begins a text.  Default: that of the tokenizer, or none.
        tokenizer: folder of a tokenizer, which is copied; it has the tokens and the context that are not given.
        keep_graph: run no rules.  Only names of caches change, if they have no numbers of layers.
        last_logits: score only the last token of each text, which the client reads; a prompt takes less time.
        weights: round the weights of products and tables ("int4", "int8"), or convert the model with its caches and
            scores ("float16"), as `surgeon.convert` does.
        block: for int4 and int8, the number of elements of a weight with one scale: 16, 32, 64, 128 or 256.
        max_error: largest error of an output, as a fraction of its largest value.  Default: 0.01; for int4 and int8, no
            limit.
        accuracy_level: for int4 and int8, 4 lets kernels round activations to 8 bits too, and 0 does not.  Default: 0
            for int4; 4 for int8, which is slow on a CPU without.
        check: as for `rewrite`, or "decode": sites, and decoding of the new model, token by token in padded batches, is
            compared with the original on each sequence by itself.  Default: "decode", or "sites" for a kept graph and
            for a mask that is assumed to be left-padded, whose attentions keep it.
        require_proof: treat unproved results as failures.
        force: write into a folder that contains other files.
        options: seeds, sizes, tolerances and limits of the checks.
        progress: as for `rewrite`.

    Returns:
        A report, with a step for the rules and one for the names of caches.

    Raises:
        UsageError: the model is not a decoder that onnxruntime-genai runs, or a token or the context is unknown.
        CheckFailed: a site was rolled back, and the folder has the remaining model; or the model is wrong, and nothing
            is written.

    Examples:
        >>> import surgeon
        >>> try:
        ...     surgeon.decoder("notebooks/models/tiny_distilbert.onnx", "folder", context=64, eos=0)
        ... except surgeon.UsageError as error:
        ...     print(error.what)
        The model is not a decoder with a cache, because no output is an input with new rows appended.
    """
    given, options = given_facts(eos, pad, bos, context), options or CheckOptions()
    folder = str(tokenizer or "")
    last = GenaiFolder(context=given.context, eos=given.eos, pad=given.pad, bos=given.bos, tokenizer=folder)
    with Model.open(resolve_model(source)) as model:  # refuse before the work begins
        found, facts = last.decoder_in(ModelDraft(model))
        assumed = assumptions_of(declaring(model, options.assume).skeleton).get(found.mask or "", Assumption())
        is_left_padded = LEFT_PADDED in assumed.words and NO_PADDING not in assumed.words
        check = check or ("sites" if keep_graph or is_left_padded else "decode")
        checks = replace(Checks.named(check, CHECKS, require_proof, options), progress=progress)
        is_unread = check == "none" or (check in ("sites", "decode") and weights == "keep")  # losses are of inputs
        if (is_unread and options.inputs) or (check not in ("model", "both") and options.layers):
            raise UsageError("Inputs and layers need the check of the whole model. Choose check='model' or 'both'.")
        _require_tokens(read_inputs(model.skeleton, options.inputs), found.ids)
    last = replace(last, assumed=str(assumed))
    rules = RuleSet(RULES, target=TARGET)
    edits: list[Edit] = [last, LastLogits()] if last_logits else [last]
    steps: list[Transform | Compound] = [*edit_groups(edits)]
    if not keep_graph:
        edits.append(RotaryInAttention(facts.context or 1))
        steps = [*edit_groups([SequenceSizes()]), rules, *edit_groups(edits), RuleSet(TIDYING, target=TARGET)]
    report = DecoderReport("", "")
    with staged_folder(Path(os.path.abspath(output)), "the decoder", force=force) as staging:
        saving = Saving(staging / MODEL)
        losses = _conversion(weights, saving, block=block, max_error=max_error, accuracy_level=accuracy_level)
        with gc_paused(), ExitStack() as stack:
            original = stack.enter_context(opened_to_run(source)) if check == "decode" else None
            proofs = [] if original is None else [DecodingProof(original, report)]
            try:
                run(source, [*steps, *proofs, *losses], checks, saving, report=report)
            except CheckFailed:
                report.unfused = "" if keep_graph else _why_unfused(source, checks)
                raise
        report.decoder, report.config, report.size = last.write(staging, found.query_heads)
        report.unfused = "" if keep_graph or report.shares_buffers else _why_unfused(source, checks)
    for step in report.flat:
        step.output, step.replaces = str(output), False
    if report.rolled_back:
        raise CheckFailed(rollback_message(rules.report), report, str(output))
    return report


def _require_tokens(given: Iterable[InputSet], ids: str) -> None:
    """Raise UsageError for inputs without tokens: kernels of attention end the process for them."""
    for one in given:
        if not one.arrays[ids].size:
            batch, rows = one.arrays[ids].shape
            counts = f"{format_count(batch, 'sequence')} of {format_count(rows, 'token')}"
            raise UsageError(f"Input {ids!r} in {one} has {counts}. Give at least one sequence with one token.")


def _why_unfused(source: ModelLike, checks: Checks) -> str:
    """The nearest mismatch of the rule that fuses attention with its cache; empty if it fuses all that it finds."""
    rules, report = RuleSet(FUSING, target=TARGET), Report("", "")
    run(source, [*edit_groups([SequenceSizes()]), rules], replace(checks, dry_run=True), report=report)
    misses = nearest([miss for miss in rules.report.misses if miss.rule == FUSING[-1]])
    return misses[0].reason if misses else ""


def _conversion(
    weights: str, saving: Saving, *, block: int, max_error: float | None, accuracy_level: int | None
) -> list[Transform]:
    """The step that changes weights, if any.  Raises UsageError for options that do not fit."""
    if weights not in get_args(DecoderWeights):
        raise UsageError(f"Unknown weights {weights!r}. Choose {', '.join(get_args(DecoderWeights))}.")
    if weights == "keep":
        if block != BLOCK or max_error is not None or accuracy_level is not None:
            why = "A block, a largest error or an accuracy level needs weights that change"
            raise UsageError(f"{why}. Choose int4, int8 or float16.")
        return []
    output = resolve_output(saving.output)
    io: Literal["keep", "convert"] = "keep" if weights in WEIGHTS else "convert"  # no Cast at a cache, which is large
    step = conversion_step(
        weights, io=io, block=block, max_error=max_error, accuracy_level=accuracy_level, output=output
    )
    return [OnTexts(step)]
