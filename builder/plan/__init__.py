"""Lowering of a target graph to a plan: capability, weight layout, KV groups, memory."""
