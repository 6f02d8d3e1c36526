"""Checks packages of custom ops for Qualcomm Cloud AI, whoever wrote them: their YAML, libraries, kernels."""
