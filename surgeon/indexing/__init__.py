"""Who makes and who uses each tensor, what is constant, and of what type."""
