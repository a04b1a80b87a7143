"""What hostile files do to surgeon: mutants of small models and bombs, run through its commands.

    python -m tests.hostile                     # 10,000 mutants, and all bombs
    python -m tests.hostile --files 500 --seed 7 --keep broken/

Each file is read by one command in a fork of a process that has everything loaded; what ends badly there is run again
in a process of its own, and judged by that.  All is well where it ends in time, by itself, with its result or with one
sentence, and where what it wrote is whole.
"""
