"""The models that other optimizers' own tests hold, given to surgeon: `python -m tests.peer_suites`."""
