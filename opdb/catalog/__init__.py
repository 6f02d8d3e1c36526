"""The catalogue in SQL: tables, sync, questions; chips, facts and evidence."""
