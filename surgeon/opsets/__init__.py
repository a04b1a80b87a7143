"""What operators mean from one opset to another."""
