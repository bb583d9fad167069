"""The study: spaces, protocol, runner, store, statistics, tracking and reports."""
