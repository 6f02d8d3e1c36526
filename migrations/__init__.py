"""Alembic: the history of the tables in opdb.catalog.schema.  Run by opdb.catalog.migrate, never by hand."""
