"""What looks at builders and programs: opdb check, two builders compared, what builders make as data."""
