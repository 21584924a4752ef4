"""How ``wrong_answers/chapter_NN.py`` says what an answer is: right, or wrong and told so."""

from collections import defaultdict

RIGHT, WRONG = defaultdict(list), defaultdict(list)  # by the exercise's id


def right(exercise_id):
    """Decorate a right answer, or call it with one."""

    def keep(answer):
        RIGHT[exercise_id].append(answer)
        return answer

    return keep


def wrong(exercise_id, told):
    """Decorate a wrong answer, or call it with one; ``told`` are words of what it must be told."""

    def keep(answer):
        WRONG[exercise_id].append((answer, told))
        return answer

    return keep
