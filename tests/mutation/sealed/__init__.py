"""The sealed half of the wrong rules written by hand: nobody who develops the proof engine reads these files.

The other half, `planted`, is public: the engine was developed with it, so that it is no evidence.  This half was
written without a look at the engine.  It is run once per release, by `python -m tests.mutation --sealed`, and reported
only as counts by kind of mistake.  A fault that passes is not handed to a developer; its kind is.  A fault whose code a
developer has read moves to the public half, and a new one of the same kind takes its place.

Each file has one kind of mistake or two.  Each fault has an input on which ONNX Runtime answers otherwise for the
replacement; `tests/test_sealed_faults.py` runs both sides there.  Right rewrites stand among them as controls: none
of them may fail.
"""

from tests.mutation.sealed import (
    attention,
    branches,
    images,
    indices,
    integers,
    layouts,
    masks,
    norms,
    numbers,
    quantization,
    sizes,
    special_numbers,
)

MODULES = (
    attention,
    branches,
    images,
    indices,
    integers,
    layouts,
    masks,
    norms,
    numbers,
    quantization,
    sizes,
    special_numbers,
)
"""Imported so that their faults are known."""
