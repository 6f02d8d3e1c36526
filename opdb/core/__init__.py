"""What every other wing uses: errors, data types, op configs, graphs, files, pools of processes."""
