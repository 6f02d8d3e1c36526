"""Fits the table of prices (opdb.lower.prices) to finalizations.

``network_pairs`` makes the pairs of a network, ``pairs`` defines a pair, ``build`` collects those of all models in a file, ``fit``
makes the table, ``accuracy`` checks how well it predicts.  See docs/guides/cost.md.
"""
