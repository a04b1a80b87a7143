"""Proof that a rewrite changed the model's form and not its meaning."""

from surgeon.prove.compare import OutputError
from surgeon.prove.inputs import InputsUnknown, synthesise
from surgeon.prove.model_check import check_model
from surgeon.prove.result import CheckResult, Outcome
from surgeon.prove.structure import check_structure

__all__ = ["CheckResult", "InputsUnknown", "Outcome", "OutputError", "check_model", "check_structure", "synthesise"]
