"""The one judge: two tensors held against each other, what each outcome is called, and how far is too far.

It knows arrays and numbers, and no models.
"""
