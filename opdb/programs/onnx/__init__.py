"""ONNX graphs as PyTorch modules.

``graph`` builds the module, ``operators`` maps ONNX's operators to PyTorch functions, and ``node`` has what such a function
receives.  Values known from the file are computed once, in numpy by ONNX's reference; an operator that has no function here is
expanded to the function of other operators that ONNX defines it by.
"""
