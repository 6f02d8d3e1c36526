"""TensorFlow Lite (LiteRT) files as ONNX models, which opdb's ONNX reader takes: quantized tensors in the form QDQ.

``file`` reads a file into plain records, ``operators`` has a function for each of TFLite's operators, and ``graph`` writes the
ONNX graph.  TFLite keeps images as [N, H, W, C] and ONNX as [N, C, H, W]: a Transpose on each side of an image operator; QNN keeps
them as TFLite does, so opdb drops the pairs.
"""

from opdb.programs.tflite.model import to_onnx

__all__ = ["to_onnx"]
