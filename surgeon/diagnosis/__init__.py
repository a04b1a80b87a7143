"""What can be told of a model as it stands: faults of its graph and header, dtypes that clash, where nodes are from."""
