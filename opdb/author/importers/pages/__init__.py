"""The SDK's OpDef documentation (HTML pages) -> facts in the form of opdb.catalog.facts -> drafts."""
