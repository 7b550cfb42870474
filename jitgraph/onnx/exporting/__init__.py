"""From a recorded function to an ONNX model: the graph's walk, the form of each op by family, and the file."""
