"""New ops: drafts, add-op, users' own folders of ops."""
