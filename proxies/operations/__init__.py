"""The operations that a network calls: what each is, the modes that see them, and the record of a network."""
