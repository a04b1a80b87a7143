"""When a proof of one site applies to another."""

__all__ = ["disk_store", "environment", "notes", "proof_class", "proof_key", "region_signature"]
