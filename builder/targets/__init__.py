"""Targets: each compiles the portable graph for one kind of machine."""
