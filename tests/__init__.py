"""Tests of surgeon and of the rules that ship with it."""
