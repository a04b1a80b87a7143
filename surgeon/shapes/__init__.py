"""Shapes and dtypes by symbolic evaluation: what a tensor looks like for any size of its free dimensions."""
