"""Tests of surgeon.torch."""
