"""Fleets of models: what they are made of, what works on them, and a long run over many."""
