"""Reads PyTorch programs for verdicts (what a QNN target takes, and why not the rest) and for QNN graphs.

module, inputs = load_model("model.pt2")
coverage = check_program(export(module, inputs), Target("HTP", "SM8650"))
"""
