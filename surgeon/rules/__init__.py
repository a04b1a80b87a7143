"""What a rule is, where rules come from, and what they write for a target: nothing here looks at a model."""
