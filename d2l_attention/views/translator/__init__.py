"""The translator in the page: write a sentence, forbid a look, see what becomes of the French."""
