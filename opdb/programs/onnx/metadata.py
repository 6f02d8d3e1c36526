"""Metadata that a reader of another format attaches to the ONNX nodes it writes."""

#: Keys of a node's metadata: the operator it comes from, e.g. "12: CONV_2D" with the number from 1, and the name of that
#: operator's first result.
OPERATOR, RESULT = "operator", "result"
#: The attribute that says why a node has no form in ONNX.
WHY = "opdb_why"
#: The attribute with the work of such a node: its FLOPs, and 1 if that is a lower bound, because a loop runs as often as the data say.
WORK = "opdb_work"
