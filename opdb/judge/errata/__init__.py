"""Faults of vendor libraries: records, policy, workarounds."""
