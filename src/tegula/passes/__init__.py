"""Passes on the IR, each from valid IR to valid IR. `pipeline.py` lists the passes in order."""
