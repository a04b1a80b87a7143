"""The gate over exports of two releases of torch: `python -m tests.gate FOLDER` exports the models."""
