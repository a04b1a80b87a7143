"""What hostile files do to surgeon: mutants of small models and bombs, run through its commands.

    python -m tests.hostile                     # 10,000 mutants, and all bombs
    python -m tests.hostile --files 500 --seed 7 --keep broken/

Each file is read by one command in a process of its own.  All is well where that ends in time, by itself, with its
result or with one sentence, and where what it wrote is whole.
"""
