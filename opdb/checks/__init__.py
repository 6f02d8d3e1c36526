"""Verdicts on models: which nodes a target takes, warnings, reports."""
