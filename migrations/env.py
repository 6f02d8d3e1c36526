"""What Alembic runs: migrations on the connection, and inside the transaction, that opdb.catalog.migrate opened."""

from __future__ import annotations

from alembic import context

from opdb.catalog.schema import REVISION, metadata
from opdb.catalog.schema.views import create_views, drop_views

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=True,  # SQLite changes a table by making it anew
    transactional_ddl=True,
    compare_type=True,
    compare_server_default=True,
)
drop_views(connection)  # a table cannot change under a view
context.run_migrations()
if context.get_context().get_current_heads() == (REVISION,):
    create_views(connection)
