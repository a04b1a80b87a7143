"""One model of a fleet: fetched, run in a process, published."""

__all__ = ["dask_engine", "fleet_engine", "publish"]
