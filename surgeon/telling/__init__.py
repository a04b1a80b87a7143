"""What is said of results, in words: the same on a screen and on a page."""
