"""GPU kernels in the Triton language, compiled ahead of time to cubins.

Importing this package imports neither `triton` nor torch. `compile` is the door: it alone imports
the kernel modules.
"""
