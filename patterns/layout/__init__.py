"""Reshape, Transpose and other nodes that only move data."""
