"""Whether a model is well-formed, and whether what a rewrite made of it still is; it runs nothing."""
