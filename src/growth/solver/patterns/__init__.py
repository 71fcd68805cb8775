"""Which nodes are bought for these rows of equal pods, as cheaply as can be? Column generation on bare numbers. Asked
by `solver/purchase/solve`.

    stock       rows of pods, choices of nodes, limits
    fluid       if pods and nodes could be cut: a first bound, first values of pods
    generate    patterns (what one node holds) priced at those values (`pricing`, `knapsack`), the program over them (`master`), again and again
    dive        whole nodes from the program; `finish` packs the rest, `mend` packs some again, `small` lists everything where that is possible
    bound       what no plan can be cheaper than, by values that no node can hold more of than it costs
    packing     all of it in order

It knows nothing of names, zones and rules between pods: `solver/purchase/rows` has turned them into numbers.
"""
