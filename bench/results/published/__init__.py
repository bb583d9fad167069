"""Published boards: their scores and recipes as files, entries of others, and a look at whether they hold."""
