"""ONNX models as modules: what ``jg.onnx.load`` gives."""
