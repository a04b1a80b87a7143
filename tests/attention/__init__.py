"""The matrix of attention and rotary embedding: models and modules, through both exporters, against what torch ran."""
