"""One writer of completion scripts for each shell."""
