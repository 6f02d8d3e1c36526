"""The plug-ins: everything beyond QNN itself, a folder each, found by opdb.core.plugins."""
