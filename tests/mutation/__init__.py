"""How sharp the proofs are: wrong replacements are planted in every rule, and right ones that must not be called wrong.

A mutant is one small change of what a rule writes at one place of a model (`mutants`, and `poisons` for its results
as a whole).  The subjects are the models on which the tests of the rules fire, each form of each word of the
vocabulary, and real exports.  What a proof lets pass is looked at again by `judging`, on other inputs (`feeds`):
a difference beyond rounding is a HOLE.

    python -m tests.mutation --table                the table, with every survivor and why (about 4,000 mutants)
    python -m tests.mutation --table --exports      the same on real exports
    python -m tests.mutation --show TITLE           one mutant, and the replacement that it changes
    python -m tests.mutation --planted              the wrong rules written by hand, the public half
    python -m tests.mutation --sealed               the sealed half: counts by kind, once per release (see `sealed`)
    python -m tests.mutation --right                rewrites that are right: none may be called wrong

The default test run takes a sample, whose outcomes are recorded in `sample.txt` and `planted.txt`, and what was a hole
once, in `mended.txt` (see `recorded`).
"""
