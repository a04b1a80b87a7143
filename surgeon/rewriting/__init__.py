"""The driver of rules over a model, what it asks of proofs, and the report of both."""
