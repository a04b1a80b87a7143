"""The matrix: operations in every form, through both exporters, at every opset and dtype, against what torch ran."""
