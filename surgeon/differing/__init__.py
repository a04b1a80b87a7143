"""Two models held against each other by what they are made of: which nodes stand for each other, and what is left."""
