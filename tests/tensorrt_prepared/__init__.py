"""Which models TensorRT takes before and after the rules for it: `python -m tests.tensorrt_prepared`."""
