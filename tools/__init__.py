"""What only maintains the project: parity with the authors' code, agreement with NASLib, costs, cards."""
