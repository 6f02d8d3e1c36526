"""The binding to QNN's libraries."""

#: The backend whose library simulates the latency of a graph when it finalizes it (docs/guides/cost.md).
SIMULATING = "HTP"
