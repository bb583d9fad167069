"""What the pages of the site are made with."""
