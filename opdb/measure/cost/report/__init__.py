"""An estimate as text, JSON and one HTML page; ``rows`` sums groups of nodes, ``text`` describes how reliable the figures are."""
