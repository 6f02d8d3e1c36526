"""``python -m opdb``."""

from opdb.cli import run

run()
