"""TensorFlow Lite (LiteRT) files as ONNX models for opdb's ONNX reader, with quantized tensors in QDQ form.

``file`` reads a file into plain records, ``operators`` has a function for each of TFLite's operators, and ``graph`` writes the
ONNX graph.  TFLite keeps images as [N, H, W, C] and ONNX as [N, C, H, W], so an image operator gets a Transpose on each side; QNN
has TFLite's layout, so opdb drops the pairs.
"""

from opdb.programs.tflite.model import to_onnx

__all__ = ["to_onnx"]
