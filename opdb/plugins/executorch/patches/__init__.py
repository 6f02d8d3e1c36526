"""What opdb changes inside ExecuTorch, a patch for each change."""
