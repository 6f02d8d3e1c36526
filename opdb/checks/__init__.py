"""Verdicts on models: which nodes a target takes, warnings, reports.

Warnings of values that do not fit a type are in range_warnings, notes about nodes computed in other types in notes.py.
Warnings of a spec's rules and of errata come with a lowered node (opdb.lower.violations, opdb.judge.errata.policy).
"""
