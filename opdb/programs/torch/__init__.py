"""Reads PyTorch programs, for verdicts on how much of one a QNN target takes, with reasons, and for QNN graphs.

module, inputs = load_model("model.pt2")
coverage = check_program(export(module, inputs), Target("HTP", "SM8650"))
"""
