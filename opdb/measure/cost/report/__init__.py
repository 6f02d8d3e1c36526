"""An estimate as text, JSON and one HTML page; ``rows`` sums groups of nodes, ``words`` says what the figures are worth."""
