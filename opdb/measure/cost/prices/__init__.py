"""Makes the table of prices (opdb.lower.prices) of finalizations: ``measured`` has the pairs of a network, ``pairs`` what a pair is,
``build`` those of all models and their file, ``fitted`` the table, ``checked`` how well it predicts.  docs/guides/cost.md says more.
"""
