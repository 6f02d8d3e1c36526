"""Reads and writes Qualcomm's XML of custom ops (the OpDef collection of QNN's op package generator)."""
