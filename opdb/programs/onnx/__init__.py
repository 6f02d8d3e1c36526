"""ONNX graphs as PyTorch modules.

``graph`` makes the module, ``operators`` says what each of ONNX's operators is in PyTorch, ``node`` what such a
function is told.  What a file says is computed once, in numpy by ONNX's reference; an operator that has no function
here is taken as the function of others that ONNX defines it by.
"""
