"""One recipe over many models, in processes or on a cluster, with a database of results."""

__all__ = ["baseline", "fleet", "fleet_row", "job", "run_many"]
