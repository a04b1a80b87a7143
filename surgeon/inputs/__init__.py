"""Inputs that a model can run on: made to fit its graph, or read from the user's files."""
