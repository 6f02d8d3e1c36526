"""Ops of one's own in a folder of one's own: spec, kernel, HTP package, and what the package computes.

    custom/
      ops/SoftCap.yaml      the spec
      kernels/soft_cap.c    the kernel, unless the spec says what an element of the result is (``each``)
      build/htp/            the package

Nothing of opdb is regenerated or compiled, so this works with an installed opdb.
"""
