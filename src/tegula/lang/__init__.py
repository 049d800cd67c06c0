"""The frontend: Python functions become typed IR."""
