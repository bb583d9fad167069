"""What searches. Empty in this version: genetic programming and the searches are the next rooms to be built."""
