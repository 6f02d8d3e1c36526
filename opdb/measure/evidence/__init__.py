"""Measures evidence: ``measure`` asks one library, ``build`` asks all of them, ``check`` repeats a share ([evidence.md]).

The file and its records are in opdb.catalog.evidence.
"""
