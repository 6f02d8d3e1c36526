"""A pytest plugin for the tests of ExecuTorch's Qualcomm passes, which compile and compare graphs and run nothing."""

from __future__ import annotations

from recording import register_opdb


def pytest_configure() -> None:
    register_opdb()
