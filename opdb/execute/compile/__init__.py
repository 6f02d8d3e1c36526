"""Compiles models to context files of a QNN library, and converts arrays for them.

coverage, graph = lowered(load_program("model.pt2"), Target("HTP", "SM8650"), "model")
compiled = compile_to_file([graph], Path("model.bin"), "HTP", "SM8650", GraphOptions(precision="fp16"))
"""
