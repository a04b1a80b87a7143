"""TensorRT itself, where it is installed: its parser and its builder, asked in a process of their own."""
