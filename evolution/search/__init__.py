"""Searches for networks: what proxies find when few trainings can be paid for."""
