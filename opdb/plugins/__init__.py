"""What opdb can do beyond QNN itself: a folder for each plug-in, found by opdb.core.plugins."""
