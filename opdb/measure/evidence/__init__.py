"""Evidence measured: ``measure`` asks a library, ``build`` all of them, ``check`` a share again ([evidence.md]).

The file and its records are opdb.catalog.evidence.
"""
