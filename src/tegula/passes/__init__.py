"""Passes on the IR: each takes valid IR and leaves valid IR. `pipeline.py` lists them in order."""
