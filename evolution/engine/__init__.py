"""How a search goes on: generations, fitness, and the two kinds of problem, networks and pools."""
