"""Why a rule does not fire: what a person asks of one site, or of a whole model."""
