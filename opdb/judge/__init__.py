"""Op configs judged: validation, the nearest accepted config, samples, errata."""
