"""The eyes of ``accessibility`` see what is wrong: a page that is broken on purpose."""

from accessibility import contrast_harms, harms

PAGE = """<!doctype html><html lang="en"><title>A page</title>
<body style="background: white; color: black"><main><h1>Heading</h1>{}</main></body></html>"""


def test_a_picture_without_words_and_a_button_without_a_name(new_page):
    page = new_page()
    page.set_content(PAGE.format('<img src="data:,"><details><summary></summary>a</details>'))
    found = harms(page, set())
    assert sorted(line.split(":")[0] for line in found) == ["image-alt", "summary-name"]


def test_pale_text_is_reported_once_for_all_pages(new_page):
    page, seen = new_page(), set()
    pale = '<p style="color: #75797e; background: #f3f4f5">pale</p>'
    page.set_content(PAGE.format(f"<p>fine</p>{pale}{pale}"))
    (found,) = harms(page, seen)
    assert found.startswith("color-contrast: <p style")
    assert len(seen) == 3  # of the heading, of the two paragraphs
    page.set_content(PAGE.format(pale))
    assert contrast_harms(page, seen) == []


def test_letters_on_a_coloured_ancestor(new_page):
    page = new_page()
    inside = '<div style="background: #777"><p><b style="color: #666">low</b></p></div>'
    page.set_content(PAGE.format(f'<p style="color: #666">fine</p>{inside}'))
    (found,) = harms(page, set())
    assert "low" in found


def test_a_link_that_only_its_colour_tells_from_the_text(new_page):
    """In a list of links, nothing has to tell them from a text."""
    page, seen = new_page(), set()
    link = '<a href="#there" style="color: #222; text-decoration: none">there</a>'
    page.set_content(PAGE.format(f"<p>{link}</p>"))
    assert harms(page, seen) == []
    # What is bold stands out in a text, but not where all is bold.
    bold = f'<p style="font-weight: bold">You find it {link}.</p>'
    for text in (f"<p>You find it <b>{link}</b>.</p>{bold}", f"<p>You find it {link}.</p>"):
        page.set_content(PAGE.format(text))
        (found,) = harms(page, seen)
        assert found.startswith("link-in-text-block: <a href")
    page.set_content(PAGE.format(f"<p>You find it {link.replace('none', 'underline')}.</p>"))
    assert harms(page, seen) == []
