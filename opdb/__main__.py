"""``python -m opdb``."""

from opdb.cli import main

main()
