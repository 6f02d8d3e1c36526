"""opdb's own delegate for ExecuTorch: the ahead-of-time part (docs/reference/executorch-delegate.md).

Uses only ExecuTorch's public interface, so that the same source works with 1.4 and 1.5.
"""
