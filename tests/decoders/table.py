"""What becomes of exported decoders, as Markdown: `python -m tests.decoders.table --architectures llama --time llama`.

The first table has a line for each export.  Nodes are counted before and after `surgeon.decoder`.  Tokens are the first
ones equal to those of `transformers.generate`, of 64, for prompts of 1, 2, 7, 40 and 300 tokens, and for a batch of 2,
7 and 40 tokens that is padded on the right.  The second table has times of a larger model, in one run with one thread:
of the exported graph, of surgeon's, and of the graphs that others write for onnxruntime-genai.
"""

import argparse
import contextlib
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx
import torch

import surgeon
from tests.decoders import architectures
from tests.decoders.client import generated, least_times
from tests.decoders.exported import EXPORTS, export

COUNT = 64
_ATTENTION = "GroupQueryAttention"
_PASTS = 256, 1024
_COLUMNS = (
    *("architecture", "export", "nodes", _ATTENTION, "shared buffers"),
    *("equal tokens, separate", "equal, shared"),
)
_TIMES = (
    *("architecture", "graph", "nodes", _ATTENTION, "equal tokens"),
    *("256 tokens, ms", "one after 256, ms", "one after 1,024, ms"),
)
_WAYS = ("exported", "surgeon", "`ort_fusions` of transformers", "builder of onnxruntime-genai")


class Footnotes:
    """Reasons for what a table does not have."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, error: object) -> str:
        """The text of a cell, which refers to a reason."""
        text = " ".join(str(error).split()).replace("|", "\\|")[:600]
        if text not in self.texts:
            self.texts.append(text)
        return f"– ({self.texts.index(text) + 1})"

    def tried(self, made: Callable[..., Any], *given: Any) -> Any:
        """What a function returns, or a cell that says why it returned nothing: other programs fail in many ways."""
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                return made(*given)
        except Exception as error:  # noqa: BLE001
            return self.mark(f"{type(error).__name__}: {error}")


class References:
    """The tokens that transformers generates."""

    def __init__(self, made: torch.nn.Module) -> None:
        self.texts = [architectures.tokens(made, prompt, COUNT) for prompt in architectures.PROMPTS]
        self.eos = min({*range(3, architectures.VOCABULARY)}.difference(*self.texts))

    def equal(self, folder: Path, shared: bool | None = None) -> str:
        """The number of first equal tokens: of all texts, or of each prompt and each text of the batch.

        shared: as for `generated`.
        """
        first = architectures.PROMPTS.index(architectures.BATCH[0])
        counts = [
            _first_equal(generated(folder, [prompt], COUNT, shared)[0], text)
            for prompt, text in zip(architectures.PROMPTS, self.texts, strict=True)
        ]
        rows = generated(folder, architectures.BATCH, COUNT, shared)
        batch = [_first_equal(row, text) for row, text in zip(rows, self.texts[first:], strict=False)]
        if {*counts, *batch} == {COUNT}:
            return str(COUNT)
        return f"{' '.join(map(str, counts))}; batch {' '.join(map(str, batch))}"


def _first_equal(found: Sequence[int], wanted: Sequence[int]) -> int:
    return next((n for n, (one, other) in enumerate(zip(found, wanted, strict=True)) if one != other), len(wanted))


def _export_path(folder: Path, name: str, exporter: str, opset: int) -> Path:
    """The file of an export, which is made unless the folder has it."""
    path = folder / f"{name}-{exporter}-{opset}" / "model.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        export(architectures.model(name), exporter, opset, path)
    return path


def _size(folder: Path) -> tuple[int, int]:
    """The number of nodes and of attentions of the graph in a folder."""
    nodes = onnx.load(folder / "model.onnx", load_external_data=False).graph.node
    return len(nodes), sum(node.op_type == _ATTENTION for node in nodes)


def lines(name: str, exports: Sequence[tuple[str, int]], options: argparse.Namespace, notes: Footnotes) -> Iterator:
    """The cells of each export of an architecture."""
    references = References(architectures.model(name))
    for exporter, opset in exports:
        cells = [name, f"{exporter} {opset}"]
        source = notes.tried(_export_path, options.folder, name, exporter, opset)
        if isinstance(source, str):
            yield [*cells, source, *[""] * 4]
            continue
        with tempfile.TemporaryDirectory() as place:
            yield [*cells, *_result_cells(source, Path(place) / "folder", references, options, notes)]


def _result_cells(
    source: Path, folder: Path, references: References, options: argparse.Namespace, notes: Footnotes
) -> list[str]:
    """Nodes, attentions, sharing and equal tokens of one export."""
    facts = {"context": 512, "eos": references.eos, "pad": 0, "check": options.check}
    report = notes.tried(lambda: surgeon.decoder(source, folder, **facts))
    if isinstance(report, str):
        return [report, *[""] * 4]
    before, after = report.nodes
    shares = bool(report.config["search"]["past_present_share_buffer"])
    separate, shared = (
        notes.tried(references.equal, folder, sharing) if sharing <= shares else ""
        for sharing in (False, True)
    )
    nodes = f"{before:,} → {after:,}"
    return [nodes, str(_size(folder)[1]), "yes" if shares else "no", separate, shared]


def time_lines(name: str, notes: Footnotes) -> Iterator[list[str]]:
    """The cells of each way to a graph: nodes, attentions, equal tokens, and milliseconds of reading and of one token.
    """
    made = architectures.model(name, architectures.LARGE)
    references = References(made)
    made.config.eos_token_id = references.eos
    with tempfile.TemporaryDirectory() as place:
        ways = dict(zip(_WAYS, _ways(made, Path(place)), strict=True))
        found = {way: notes.tried(folder) for way, folder in ways.items()}
        folders = [folder for folder in found.values() if isinstance(folder, Path)]
        times = [dict(zip(folders, least_times(folders, past), strict=True)) for past in _PASTS]
        for way, folder in found.items():
            cells = [folder, *[""] * 5]
            if isinstance(folder, Path):
                counts = (f"{count:,}" for count in _size(folder))
                cells = [*counts, notes.tried(references.equal, folder), f"{times[0][folder][0]:.2f}"]
                cells += [f"{time[folder][1]:.2f}" for time in times]
            yield [name, way, *cells]


def _ways(made: torch.nn.Module, place: Path) -> Iterator[Callable[[], Path]]:
    """Functions that write a folder of onnxruntime-genai each, in the order of `_WAYS`."""
    config = made.config
    facts = {"context": config.max_position_embeddings, "eos": config.eos_token_id, "pad": 0}

    def written(title: str, exporter: str, keep_graph: bool, fusions: str | None = None) -> Path:
        source, folder = place / title / "model.onnx", place / f"{title}-folder"
        source.parent.mkdir()
        export(made, exporter, 20, source, fusions)
        surgeon.decoder(source, folder, **facts, keep_graph=keep_graph, check="none")
        return folder

    yield lambda: written("exported", "dynamo", True)
    yield lambda: written("surgeon", "dynamo", False)
    yield lambda: written("fused", "transformers", True, "cpu")
    yield lambda: _built(made, place)


def _built(made: torch.nn.Module, place: Path) -> Path:
    """The folder that the builder of onnxruntime-genai writes.  It wants a tokenizer, which nobody reads here."""
    import tokenizers
    import transformers

    words = {f"t{number}": number for number in range(architectures.VOCABULARY)}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="t3"))
    made.save_pretrained(place / "weights")
    transformers.PreTrainedTokenizerFast(tokenizer_object=plain).save_pretrained(place / "weights")
    command = ["-i", place / "weights", "-o", place / "built", "-c", place / "cache", "-p", "fp32", "-e", "cpu"]
    run = [sys.executable, "-m", "onnxruntime_genai.models.builder", *map(str, command)]
    ended = subprocess.run(run, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(ended.stderr.strip().splitlines()[-1].replace(str(place / "weights"), "given"))
    path = place / "built" / "genai_config.json"
    config = json.loads(path.read_text())
    config["model"] |= {"eos_token_id": made.config.eos_token_id, "pad_token_id": 0}
    config["model"]["context_length"] = config["search"]["max_length"] = made.config.max_position_embeddings
    path.write_text(json.dumps(config))
    return path.parent


def _brief(cells: Sequence[str]) -> str:
    """The nodes of an export, with what is not as usual: two attentions, shared buffers, and all tokens equal."""
    _, _, nodes, *rest = cells
    return nodes if rest in (["2", "yes", str(COUNT), str(COUNT)], [""] * 4) else f"{nodes} ({', '.join(rest)})"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.decoders.table", description=__doc__)
    known, usual = list(architectures.CONFIGS), [f"{exporter}-{opset}" for exporter, opset in EXPORTS]
    every = [*known, *architectures.FURTHER]
    parser.add_argument("--architectures", nargs="*", default=known, choices=every, help="default: the first 16")
    parser.add_argument("--further", action="store_true", help="the other architectures")
    parser.add_argument("--exports", nargs="*", default=usual, choices=usual, help="default: all")
    parser.add_argument("--time", nargs="*", default=[], choices=known, help="architectures whose graphs are timed")
    parser.add_argument("--brief", action="store_true", help="one line for each architecture, with the nodes")
    parser.add_argument("--check", default="none", help="check of `surgeon.decoder`")
    parser.add_argument("--folder", type=Path, help="where exports are kept and taken from; default: nowhere")
    return parser.parse_args()


def main() -> None:
    """Print the tables, each line when it is known."""
    options, notes = _options(), Footnotes()
    torch.set_num_threads(1)
    exports = [(name, int(opset)) for name, opset in (one.split("-") for one in options.exports)]
    with tempfile.TemporaryDirectory() as place:
        options.folder = options.folder or Path(place)
        heads = ("architecture", *(f"{exporter} {opset}" for exporter, opset in exports)) if options.brief else _COLUMNS
        if exports and options.architectures:
            print(_row(heads), _row(["---"] * len(heads)), sep="\n")
        for name in architectures.FURTHER if options.further else options.architectures:
            rows = lines(name, exports, options, notes)
            for cells in [[name, *map(_brief, rows)]] if options.brief else rows:
                print(_row(cells), flush=True)
    if options.time:
        print("", _row(_TIMES), _row(["---"] * len(_TIMES)), sep="\n")
    for name in options.time:
        for cells in time_lines(name, notes):
            print(_row(cells), flush=True)
    print("", *(f"{number}. {text}" for number, text in enumerate(notes.texts, 1)), sep="\n")


if __name__ == "__main__":
    main()
