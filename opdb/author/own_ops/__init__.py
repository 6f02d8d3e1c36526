"""A user's own ops in a folder of their own: spec, kernel, HTP package, and checks of the package's results.

    custom/
      ops/SoftCap.yaml      the spec
      kernels/soft_cap.c    the kernel, unless the spec defines an element of the result (``each``)
      build/htp/            the package

No part of opdb is regenerated or compiled, so this works with an installed opdb.
"""
