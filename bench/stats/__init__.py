"""Numbers from arrays: coefficients, bootstrap, the top, coefficients under a condition. Nothing here knows a study."""
