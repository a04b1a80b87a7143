"""Speed and memory of `surgeon rewrite` beside its peers: `python -m tests.benchmarks`.

works      the models that are generated
peers      what each peer runs, file to file
measure    whole processes: seconds and peak memory, in interleaved rounds
bars       what must hold

calls      function calls of one job; alone, `python -m tests.benchmarks.calls`

With `--speed`, the table of processor times and their bars.

speed         works, peers and figures
speed_models  models that people export

With `--transformers`, the latency of what they write, under ONNX Runtime, measured by `surgeon.bench`.

transformer_models   BERT-base and GPT-2 by torch's two exporters
transformer_peers    what surgeon and each peer make of them, file to file
latency              the tables

With `--never-slower`, that of what `surgeon rewrite --measure` writes: `never_slower`, `never_slower_models`.
"""
