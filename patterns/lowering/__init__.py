"""Ops that a target does not support, written with ops that it supports."""
