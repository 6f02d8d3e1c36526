"""New ops: drafts, add-op, folders of one's own ops."""
