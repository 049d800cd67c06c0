"""Modules that tests of several folders use."""
