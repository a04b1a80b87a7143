"""Layer, group, batch, instance and RMS normalisation, with the residuals in front of them."""
