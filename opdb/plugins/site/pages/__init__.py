"""The pages of each kind, as generators of ``Page`` over ``Facts``."""
