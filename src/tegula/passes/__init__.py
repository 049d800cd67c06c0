"""Passes on the IR: valid in, valid out. `pipeline.py` lists them in order."""
