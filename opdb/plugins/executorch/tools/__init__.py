"""Tools that examine builders and programs: opdb check, comparing two builders, builders' output as data."""
