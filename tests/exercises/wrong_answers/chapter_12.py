"""Tests that students write in the museum: wrong ones with their words, and right ones."""

from wrong_answers import museum_1_2, museum_3_4

RIGHT = museum_1_2.RIGHT | museum_3_4.RIGHT
WRONG = museum_1_2.WRONG | museum_3_4.WRONG
