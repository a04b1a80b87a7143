"""ONNX files as bytes: reading without weights, byte-exact changes, external data, and atomic saving.

It knows the protobuf format, but not what nodes mean, so it must not import `ir` or anything above.  Start with
`model.py`, then `patch.py` and `save.py`.
"""

__all__ = [
    "editable_model",
    "external_data",
    "io",
    "kinds",
    "minimal_patch",
    "model",
    "model_like",
    "patch",
    "protobuf",
    "save",
    "skeleton_edits",
    "staged_folder",
    "temporary_model",
    "tensors",
]
