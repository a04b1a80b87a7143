"""How sharp the proofs are: wrong replacements are planted in every rule, and right ones that must not be called wrong.

`python -m tests.mutation --help` says how to run it.
"""
