"""What is measured on, and written for, NAS-Bench-201."""
