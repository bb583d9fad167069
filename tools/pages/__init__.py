"""What the pages of the site are made with: the families of proxies, and formulas."""
