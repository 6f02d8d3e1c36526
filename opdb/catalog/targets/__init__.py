"""Targets: backends, chips and SDKs, as data."""
