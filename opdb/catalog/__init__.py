"""The catalog in SQL: tables, sync, questions; chips, facts, and evidence."""
