"""The types of the solver's arrays, and the numbers that mean "without bound" in them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
SmallCounts = NDArray[np.int32]
FloatArray = NDArray[np.float64]

Mask = BoolArray  # for each node: yes or no
Codes = NDArray[np.int32]  # for each node: the number of a label's value
Amounts = IntArray  # for each node: so much, or so many

MANY: Final = 1 << 40  # "without bound" in counts
BOUNDLESS: Final = 1e15  # "without bound" in counts kept as floats
