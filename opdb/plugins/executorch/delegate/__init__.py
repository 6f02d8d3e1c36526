"""opdb's own delegate for ExecuTorch: what is made ahead of time (docs/reference/executorch-delegate.md).

Only ExecuTorch's public interface is used, so that one source serves 1.4 and 1.5.
"""
