"""Which cells answer a prediction: told by what stands on the slides."""

from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from notebooks.publish.gates import answers


def words(source, kind="-"):
    return new_markdown_cell(source, metadata={"slideshow": {"slide_type": kind}})


def code(source="run()", kind="-", ran=True):
    outputs = [new_output("stream", text="5\n")] if ran else []
    return new_code_cell(
        source, outputs=outputs, metadata={"slideshow": {"slide_type": kind}}, execution_count=1
    )


QUESTION = "**Predict.** How many?"


def test_an_answer_reaches_to_the_next_heading():
    cells = [words(QUESTION), code("# Draws", ran=False), code(), words("So five."), words("More.")]
    assert answers(cells) == {0: range(1, 5)}
    assert answers([*cells, words("### Next"), code()]) == {0: range(1, 5)}
    assert answers([*cells, words("## Next", "slide"), code()]) == {0: range(1, 5)}


def test_a_picture_on_a_slide_of_its_own_does_not_tell_the_answer():
    """Seen: 'One global layer anywhere opens a path' stood below the closed field."""
    cells = [words(QUESTION), code(), words("So five."), code("# Draws", "subslide")]
    cells += [words("*Figure: five bars.*"), words("As drawn.", "subslide"), words("### Next")]
    assert answers(cells) == {0: range(1, 6)}


def test_what_prepares_the_answer_on_the_next_slide_waits_with_it():
    cells = [words(QUESTION), words("### A trial", "subslide"), code(), words("## Then")]
    assert answers(cells) == {0: range(1, 3)}


def test_an_answer_ends_before_a_new_section_and_the_next_question():
    assert answers([words(QUESTION), words("We ran it."), words("## Then"), code()]) == {
        0: range(1, 2)
    }
    assert answers([words(QUESTION), words("## Then"), code()]) == {}
    assert answers([words(QUESTION), code(), words(QUESTION), code()]) == {
        0: range(1, 2),
        2: range(3, 4),
    }


def test_words_that_a_lecturer_uncovers_are_an_answer_and_notes_ask_nothing():
    cells = [words(QUESTION), words("Five.", "fragment"), words("## Next", "slide")]
    assert answers(cells) == {0: range(1, 2)}
    assert answers([words("They **Predict** six.", "notes"), code()]) == {}
