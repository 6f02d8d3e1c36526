"""Uses Qualcomm's libraries: asks them, compiles for them, runs on them, dispatches to them."""
