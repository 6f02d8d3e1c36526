"""The base of every other wing: errors, data types, op configs, graphs, files, pools of processes."""
