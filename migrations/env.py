"""What Alembic runs: migrations on the connection, and inside the transaction, that opdb.migrate opened."""

from __future__ import annotations

from alembic import context

from opdb.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite changes a table by making it anew
    transactional_ddl=True,
    compare_type=True,
    compare_server_default=True,
)
context.run_migrations()
