"""growth: a capacity manager for Kubernetes."""
