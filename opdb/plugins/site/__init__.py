"""The catalog as a static site that is searched, read and asked for verdicts without a server.

    from opdb.plugins.site.write import write
    write(store, Path("site"))

A page is a template filled from the catalog (``pages``), with its facts as JSON beside it.  The validators of ops are their C, compiled to
WebAssembly (``wasm``, ``c``); ``assets`` has the scripts.
"""
