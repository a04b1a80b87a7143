"""Ops that a target lacks, written with ops that it has."""
