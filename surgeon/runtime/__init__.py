"""Running models: sessions in child processes, generated inputs, reference kernels, and the comparison of arrays.

It does not depend on rules or proofs, so it must not import `rules`, `targets` or any package above them.  Start with
`sessions/oracle.py` and `processes/worker.py`.
"""

__all__ = [
    "function_inlining",
    "implementations",
    "inputs",
    "kernels",
    "numerics",
    "processes",
    "provider_support",
    "quirks",
    "run_limits",
    "sessions",
    "tensorrt",
    "timing",
]
