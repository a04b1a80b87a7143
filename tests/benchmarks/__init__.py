"""Speed and memory of `surgeon rewrite` beside its peers: `python -m tests.benchmarks`.

works      the models that are generated
peers      what each peer runs, file to file
measure    whole processes: seconds and peak memory, in interleaved rounds
bars       what must hold
"""
