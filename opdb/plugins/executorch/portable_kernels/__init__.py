"""Kernel libraries for ExecuTorch's runtime from opdb's C kernels, and their tests."""
