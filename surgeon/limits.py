"""Limits that a command names and a process keeps, and what it may have models run."""

RUN_TIME = 120.0
LONGEST = 365 * 24 * 3600.0  # seconds that anybody may ask for: what systems count in takes no more than some decades
"""Seconds of processor time that one run of a whole model may take where nothing else is said, and to load it."""

TENSORRT = "tensorrt"
RUNTIMES = ("onnxruntime", TENSORRT)
"""What runs whole models, the usual one first."""
