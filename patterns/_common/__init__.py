"""Code that rules of several families share: checks of axes, float constants and dtypes, and masks by Where."""
