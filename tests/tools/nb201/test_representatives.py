from __future__ import annotations

import math

import numpy as np
import pandas as pd
from zcbench.bench.stats.coefficients import kendall
from zcbench.spaces.nb201.space import NasBench201
from zcbench.tools.nb201.representatives import effects, shared

SPACE = NasBench201(None)


def test_a_class_has_the_score_of_a_network_without_an_unreachable_operation() -> None:
    # 69 and 9722 differ in the order of nodes. The convolution of the third cell is on no path.
    plain = SPACE.index("|nor_conv_3x3~0|+|none~0|none~1|+|none~0|nor_conv_3x3~1|none~2|")
    idle = SPACE.index("|nor_conv_3x3~0|+|nor_conv_1x1~0|none~1|+|none~0|nor_conv_3x3~1|none~2|")
    assert SPACE.representative(plain) == SPACE.representative(idle)
    assert shared([idle, 69, plain, 9722], [1.0, 2.0, 3.0, 4.0], SPACE).tolist() == [3.0, 2.0, 3.0, 2.0]


def test_effects_leave_out_what_has_no_score(real_data: object) -> None:
    indices = [69, 9722, 6111, 1462, 2011]
    names = [SPACE.architecture(index) for index in indices]
    scores = [1.0, 2.0, 3.0, 4.0, math.nan]
    rows = pd.DataFrame({"proxy": "a", "architecture": names, "value": scores})
    truth = SPACE.truth("cifar10").values[indices[:4]]
    expected = [kendall(np.array(of), truth) for of in ([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 3.0, 4.0])]
    assert list(effects(rows, SPACE)) == [("a", 4, 3, *expected)]
