"""A torch node -> QNN ops that a target accepts."""
