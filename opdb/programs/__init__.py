"""Models read: PyTorch programs, ONNX and TensorFlow Lite files."""
