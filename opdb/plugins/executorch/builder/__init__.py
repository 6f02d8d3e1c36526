"""ExecuTorch's builder interface (NodeVisitor) answered by opdb's lowering: a node, its form, its wrappers."""
