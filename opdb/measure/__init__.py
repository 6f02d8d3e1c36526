"""Measurements: conformance, sweeps, evidence, cost."""
