"""Generates text with onnxruntime-genai."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np


def generated(
    folder: Path, prompts: Sequence[Sequence[int]], count: int, shared: bool | None = None
) -> list[list[int]]:
    """The best next tokens after each prompt, all in one batch that is padded on the right.

    shared: whether the past and the present of a cache are one buffer.  Default: what the folder says.
    """
    import onnxruntime_genai as genai

    width, sharing = max(map(len, prompts)), {} if shared is None else {"past_present_share_buffer": shared}
    generator = _generator(genai.Model(str(folder)), width + count, batch_size=len(prompts), **sharing)
    generator.append_tokens(np.array([[*prompt, *[0] * (width - len(prompt))] for prompt in prompts], np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    return [[int(token) for token in generator.get_sequence(row)[width:]] for row in range(len(prompts))]


def least_times(folders: Sequence[Path], past: int, steps: int = 16, rounds: int = 3) -> list[tuple[float, float]]:
    """The least milliseconds of reading `past` tokens, and of one token after them, with one thread.

    The folders take turns, so that what else the machine does meets all of them.
    """
    import onnxruntime_genai as genai

    one = {"model": {"decoder": {"session_options": {"intra_op_num_threads": 1, "inter_op_num_threads": 1}}}}
    configs = [genai.Config(str(folder)) for folder in folders]
    for config in configs:
        config.overlay(json.dumps(one))
    models = [genai.Model(config) for config in configs]
    length = past + steps + 1
    ids, found = np.random.default_rng(0).integers(3, 256, (1, past)).astype(np.int32), [[], []]
    for _ in range(rounds + 1):
        measured = [_times(_generator(model, length, min_length=length), ids, steps) for model in models]
        for kind in (0, 1):
            found[kind].append([times[kind] for times in measured])
    reading, writing = (np.min(times[1:], axis=0) for times in found)
    return list(zip(reading.tolist(), writing.tolist(), strict=True))


def _times(generator: Any, ids: np.ndarray, steps: int) -> tuple[float, float]:
    """Milliseconds of the first tokens, and the least of one more token."""
    begin = time.perf_counter()
    generator.append_tokens(ids)
    times = [time.perf_counter() - begin]
    for _ in range(steps):
        begin = time.perf_counter()
        generator.generate_next_token()
        generator.get_next_tokens()
        times.append(time.perf_counter() - begin)
    return 1e3 * times[0], 1e3 * min(times[2:])


def _generator(model: Any, length: int, **options: Any) -> Any:
    import onnxruntime_genai as genai

    settings = genai.GeneratorParams(model)
    settings.set_search_options(max_length=length, do_sample=False, **options)
    return genai.Generator(model, settings)
