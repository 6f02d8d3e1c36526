"""Implements ExecuTorch's builder interface (NodeVisitor) with opdb's lowering: a node, its form, its wrappers."""
