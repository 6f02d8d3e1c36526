"""opdb's changes to ExecuTorch, one patch for each."""
