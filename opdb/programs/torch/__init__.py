"""How much of a PyTorch program a QNN target takes: programs, verdicts with reasons, QNN graphs.

module, inputs = load_model("model.pt2")
coverage = check_program(export(module, inputs), Target("HTP", "SM8650"))
"""
