"""The evolution of programs: generations, fitness, and two problems, `networks` (programs) and `pools` (aggregates)."""
