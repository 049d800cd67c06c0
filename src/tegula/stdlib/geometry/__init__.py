"""Spatial structures in the language: queries of bounding volume hierarchies and of triangle meshes."""
