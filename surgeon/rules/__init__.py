"""What a rule is, where rules come from, and for which targets they write: nothing here looks at a model."""
