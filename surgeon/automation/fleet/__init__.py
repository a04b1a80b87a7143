"""One recipe over many models, in processes or on a cluster, with a database of results."""

__all__ = ["fleet", "fleet_row", "job", "model_sources", "run_many"]
