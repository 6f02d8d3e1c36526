"""The spec compiler: YAML files -> models -> typed definitions -> the catalog."""
