"""Lowering of a target graph to an executable plan: capability, weight layout, KV groups, memory."""
