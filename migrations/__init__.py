"""Alembic: the history of the tables in opdb.schema.  Run by opdb.migrate, never by hand."""
