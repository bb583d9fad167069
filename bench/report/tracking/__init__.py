"""Mirrors of what was found: Weights & Biases, or trackio. They are copies; the record is the Parquet store."""

from __future__ import annotations

from . import trackio as trackio
from .wandb import Session as Session
from .wandb import as_table as as_table
from .wandb import digest as digest
from .wandb import mode as mode
from .wandb import scores_of as scores_of
from .wandb import track as track
from .wandb import track_leaderboard as track_leaderboard
