"""A row of a results folder, for tests that need any."""

from __future__ import annotations

from zcbench.bench.scoring.parts import Row

ROW = Row(
    space="nb201",
    architecture="|nor_conv_3x3~0|+|none~0|none~1|+|none~0|none~1|none~2|",
    dataset="cifar10",
    batch_hash="0123456789abcdef",
    batch_size=16,
    seed=0,
    proxy="snip",
    version=1,
    protocol="N=5",
    device="cpu AVX2",
    torch="2.13.0",
    value=1.5,
    status="ok",
    message="",
    wall_s=0.25,
    peak_mib=float("nan"),
)
