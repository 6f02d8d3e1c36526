"""opdb: the op-spec database for Qualcomm QNN (AI Engine Direct)."""

__version__ = "0.2.0"
