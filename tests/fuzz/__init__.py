"""Random models through rewrites, conversions, upgrades and edits, judged by runs that surgeon has no part in.

    python -m tests.fuzz --seconds 600 --seed 1     # ten minutes
    python -m tests.fuzz --seed 1 --only 17         # one model again, with all that is done to it

`generated` makes models of control flow, local functions, symbolic sizes and mixed dtypes; `foreign` takes those of
nnsmith, a fuzzer of deep-learning compilers.  `jobs` says what is done to a model, `judging` whether the result still
computes the same.
"""
