"""What a reader of another format says of the ONNX nodes that it writes."""

#: Keys of a node's metadata: the operator that it is of, e.g. "12: CONV_2D" with the number from 1, and the name of that one's
#: first result.
OPERATOR, RESULT = "operator", "result"
#: The attribute of a node without a form in ONNX that says why it is one.
WHY = "opdb_why"
