"""The fake Hetzner lives in the package, since `growth demo` uses it too: `growth.sim.cloud.hetzner`. Here is what only
tests need of it.
"""
