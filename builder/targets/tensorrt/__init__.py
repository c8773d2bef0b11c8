"""The TensorRT target: plans for NVIDIA GPUs, built without one.

`provider` finds the bindings, `network` maps portable ops to TensorRT layers, `segments` cuts the
portable graph at its attention nodes, `compile` builds one plan per segment. What is checked here
is that TensorRT builds and accepts the plans; nothing runs them.
"""
