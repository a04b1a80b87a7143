"""Parts of a converted model, each compared with float32."""

__all__ = ["segment_proofs", "selected_rows"]
