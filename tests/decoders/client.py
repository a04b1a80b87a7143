"""Generates text with onnxruntime-genai."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np


def generated(folder: Path, prompts: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """The best next tokens after each prompt, all in one batch that is padded on the right."""
    import onnxruntime_genai as genai

    model = genai.Model(str(folder))
    settings, width = genai.GeneratorParams(model), max(map(len, prompts))
    settings.set_search_options(max_length=width + count, batch_size=len(prompts), do_sample=False)
    generator = genai.Generator(model, settings)
    generator.append_tokens(np.array([[*prompt, *[0] * (width - len(prompt))] for prompt in prompts], np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    return [[int(token) for token in generator.get_sequence(row)[width:]] for row in range(len(prompts))]
