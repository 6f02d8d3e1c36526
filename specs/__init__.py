"""The specs as package data: importlib.resources.files("opdb.specs")."""
