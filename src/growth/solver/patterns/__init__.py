"""Which nodes are bought for these rows of equal pods, as cheaply as can be? Column generation on bare numbers: names,
zones and rules between pods have been turned into a `Stock` before (`solver/purchase/rows`)."""
