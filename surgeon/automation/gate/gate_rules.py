"""The rules of the gate: the kinds of regressions, with stable ids."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GateRule:
    """A kind of regression.  Its id never changes its meaning."""

    id: str
    """Stable id, such as "SG001"."""
    name: str
    """Short name, such as "fusion-lost"."""
    level: str
    """Either "error" or "warning"."""
    summary: str
    """When it is reported, a sentence."""
    help: str
    """The remedy, one or two sentences."""

    @property
    def title(self) -> str:
        """Id and name, as reports print them."""
        return f"{self.id} {self.name}"


FUSION_LOST = GateRule(
    "SG001",
    "fusion-lost",
    "error",
    summary="The rewritten model has fewer fused ops of a family than the baseline.",
    help="Run surgeon explain on the model with the family's rule: it names the node and the reason. "
    "If the new result is right, update the baseline.",
)
OP_UNSUPPORTED = GateRule(
    "SG002",
    "op-unsupported",
    "error",
    summary="The target cannot run an op of the rewritten model, and ran all ops before.",
    help="Run surgeon check on the model: it lists the nodes with their source lines and remedies.",
)
DIM_FIXED = GateRule(
    "SG003",
    "dim-fixed",
    "error",
    summary="A dim of an input or output was dynamic, and is a number now.",
    help="Export with dynamic shapes for this dim, or make the size dynamic again with surgeon edit --dynamic-batch.",
)
INTERFACE_CHANGED = GateRule(
    "SG004",
    "interface-changed",
    "error",
    summary="An input or output is gone, has another dtype, rank or size, or an input is new.",
    help="Programs that run the model must change too. If that is intended, update the baseline.",
)
PROOF_LOST = GateRule(
    "SG005",
    "proof-lost",
    "error",
    summary="More rewritten sites are rolled back, or not proved, than in the baseline.",
    help="Run surgeon rewrite on the model: its report has the reason of each site.",
)
MODEL_GREW = GateRule(
    "SG006",
    "model-grew",
    "warning",
    summary="The rewritten model has considerably more nodes, or more bytes of weights, than the baseline.",
    help="Compare the old and the new model with surgeon diff. If the new size is right, update the baseline.",
)
MODEL_REFUSED = GateRule(
    "SG007",
    "model-refused",
    "error",
    summary="The model cannot be read, loaded or finished.",
    help="Run surgeon rewrite on the model for the whole message. A larger --model-time may help.",
)
MODEL_MISSING = GateRule(
    "SG008",
    "model-missing",
    "error",
    summary="A model of the baseline is not among the models.",
    help="Look for the reason in the log of the export. If the model is gone on purpose, update the baseline.",
)
GATE_RULES = (
    FUSION_LOST,
    OP_UNSUPPORTED,
    DIM_FIXED,
    INTERFACE_CHANGED,
    PROOF_LOST,
    MODEL_GREW,
    MODEL_REFUSED,
    MODEL_MISSING,
)
"""All rules, by id."""
