"""Checks anyone's packages of custom ops for Qualcomm Cloud AI: their YAML, libraries, and kernels."""
