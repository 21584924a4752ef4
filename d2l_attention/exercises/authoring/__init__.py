"""All that an author of exercises needs: how to write one, from a stub to its tests.

**Where.** One file, ``chapter_NN/name.py``. The task itself is a cell of the chapter's text; title,
minutes and stub are here alone, and the page takes them from here.

**What you write.** A stub with a docstring (shapes, one worked example, ``...``); the solution;
two or three cases, the smallest and most telling first; and the mistakes. A mistake is an edit of
the solution: a piece of its source, what students write instead, and the sentence to say. Names
that an edit uses (``torch``, a helper) must be known in your file. That is all::

    '''4.9: Softmax with a mask.'''

    import torch

    from d2l_attention.exercises.authoring import (
        Case,
        Exercise,
        Mistake,
        gradients_flow,
        heading,
        instead_of,
        normal,
        rows_sum_to_one,
    )


    def attend(scores, mask):
        '''Weights (Q, K) of scores (Q, K); mask (Q, K) is True where a query may attend.

        Scores [[0, 0, 5]] with the mask [[True, True, False]] give [[0.5, 0.5, 0]].
        '''
        ...


    def attend_solution(scores, mask):
        hidden = scores.masked_fill(~mask, -torch.inf)  # before the softmax: e^-inf is 0
        return hidden.softmax(dim=-1)


    SQUARE = (torch.tensor([[0.0, 1], [2, 0]]), torch.tensor([[True, True], [True, False]]))
    WIDE = (*normal(0, (3, 5)), torch.arange(5) < torch.tensor([[2], [5], [1]]))

    write_attend = Exercise(
        **heading("4.9", "Softmax with a mask", "easy", minutes=5),
        section="The heading of the chapter that teaches it",
        stub=attend,
        solution=attend_solution,
        explanation="Hidden scores are -inf before the softmax, so that their weight is 0.",
        hints=["Which score has weight 0?", "`masked_fill` fills where it is given True."],
        cases=[Case(SQUARE), Case(WIDE, because="For a square mask it was right, here not.")],
        mistakes=[
            *instead_of(
                "~mask",
                {
                    "mask": "You hide what may be seen. True means 'may attend'.",
                    "~mask.T": "Your mask is turned over.",
                    "~mask[:1]": "All queries get the mask of the first.",
                    "~mask & False": "Your mask hides nothing.",
                },
            ),
            *instead_of(
                "-torch.inf",
                {"0.0": "A score of 0 is not a weight of 0.", "-1.0": "-1 hides too little."},
            ),
            Mistake({"dim=-1": "dim=0"}, "Your softmax runs over the queries."),
            Mistake(
                {"scores.masked_fill(~mask, -torch.inf)": "scores", "dim=-1)": "dim=-1) * mask"},
                "You hide after the softmax: the hidden keys have taken their share.",
            ),
        ],
        errors={"must match the size": "Scores and mask do not line up."},
        rules=[rows_sum_to_one],
        steps=[gradients_flow("scores")],
    )

**What you get.** ``check`` goes up the ladder that ``Exercise`` describes, names the mistake that
gives the same as the student's function, on the first case also two made together, notices changed
inputs and memory, and knows what rounding is.

**What is tested** (``tests/exercises/test_mistakes.py``, derived): the solution is solved; the
stub is not attempted; each mistake alone is rejected with its own words; an edit that fits
nowhere, fits twice or changes nothing is an error. You write ``wrong_answers/chapter_NN.py``: two
answers in a student's own voice under ``@wrong("4.9", "words of the diagnosis")``, one at least
no edit of your solution, and one under ``@right("4.9")`` that shares no line with it.

**What stands ready.** ``errors={"words of an exception": "what to say"}``. Rules, for ``rules=``,
which explain a wrong result: ``no_nan`` (put it first) and ``rows_sum_to_one``. Steps, for
``steps=``, which ask for more than equal results: ``gradients_flow("scores")`` (leave it out, or
say in the task that gradients must flow: an answer made of plain numbers is refused) and
``holds(rule, case)``. ``normal(seed, shape, ...)`` draws inputs, and ``in_dtype(inputs, dtype)``
gives a case in float64 or float16.

**When words are not a mistake's own**, another mistake gives the same on the case: put the more
likely one first, or a case before it in which they differ. A mistake is named on a case only if
it is right on all cases before; so let the first cases show one thing each.

**Other kinds.** A number by hand: ``solution=0.75, steps=[number(0.75, mistakes={...})]``; several:
``parts(Part(...), ...)``; one of a few: ``choice``. Find the bugs:
``stub=with_mistakes(solution, BUG, OTHER_BUG, name="attend")`` with the same bugs among
``mistakes``, and cases that show one bug at a time (``pairs=False``). Write the test:
``steps=[catches(solution, Suspect({...}, "does this"), ..., name="attend")]``. A function that is
called in a loop, on several processes, or a class: ``run=``, a function that uses it.
"""

from d2l_attention.exercises.authoring.by_hand import Part, choice, number, parts
from d2l_attention.exercises.authoring.catches import Blind, Suspect, catches
from d2l_attention.exercises.authoring.demands import gradients_flow, holds
from d2l_attention.exercises.authoring.inputs import in_dtype, normal
from d2l_attention.exercises.authoring.rules import no_nan, rows_sum_to_one
from d2l_attention.exercises.authoring.spy import Spy
from d2l_attention.exercises.engine.attempt import Attempt
from d2l_attention.exercises.engine.compare import alike, as_numbers
from d2l_attention.exercises.engine.edits import wrong_function as with_mistakes
from d2l_attention.exercises.engine.show import show
from d2l_attention.exercises.exercise import (
    Case,
    Exercise,
    Mistake,
    Rule,
    Step,
    heading,
    instead_of,
)

__all__ = [
    "Attempt",
    "Blind",
    "Case",
    "Exercise",
    "Mistake",
    "Part",
    "Rule",
    "Spy",
    "Step",
    "Suspect",
    "alike",
    "as_numbers",
    "catches",
    "choice",
    "gradients_flow",
    "heading",
    "holds",
    "in_dtype",
    "no_nan",
    "normal",
    "instead_of",
    "number",
    "parts",
    "rows_sum_to_one",
    "show",
    "with_mistakes",
]
