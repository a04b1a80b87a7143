"""When the proof of one site holds for another."""

__all__ = ["proof_class", "proof_key", "region_signature"]
