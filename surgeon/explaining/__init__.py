"""Why a rule does not fire: what a person asks of one place, or of a whole model."""
