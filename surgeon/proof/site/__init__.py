"""The proof of one site, in this process or in a worker."""

__all__ = ["site_prover", "worker_proofs"]
