"""One module for each revision, NNNN_what.py."""
