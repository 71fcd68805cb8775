"""The fake Hetzner lives in `growth.sim.cloud.hetzner`, since `growth demo` uses it too. Only tests need this."""
