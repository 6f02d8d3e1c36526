"""Turns the SDK's OpDef documentation (HTML pages) into facts in the form of opdb.catalog.facts, and these into drafts."""
