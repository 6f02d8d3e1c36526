"""Qualcomm's XML of custom ops (the OpDef collection that QNN's op package generator reads), in and out."""
