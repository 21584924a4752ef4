"""The course's site, for Sphinx: `make site` builds it, with every warning an error."""

import gc
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(ROOT)]  # the extensions below; the package of this tree

from d2l_attention import __version__  # noqa: E402

# Sphinx keeps what it reads until its process ends: looking for garbage was a quarter of the time.
gc.disable()

project = "d2l_attention"
copyright = f"version {__version__}; text and figures CC BY 4.0, code MIT"
html_title = "Attention, live"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx.ext.mathjax",
    "chapters",
    "front",
    "needs_map",
    "reference",
]
nitpicky = True  # a reference that leads nowhere is a warning, and a warning is an error
# But types in signatures: most are other projects', whose indexes are on the network.
nitpick_ignore_regex = [("py:class", ".*")]

# Chapters are shown as committed: nothing is executed.
nb_execution_mode = "off"
nb_custom_formats = {".ipynb": "chapters.read", ".py": "chapters.read_notes"}
exclude_patterns = ["*.py"]  # this folder's own code is no page
nb_ipywidgets_js = {}  # _static/views.js draws the views; ipywidgets' own comes from a network
nb_code_prompt_show = "Show the {type}"
nb_code_prompt_hide = "Hide the {type}"
nb_output_stderr = "severe"
highlight_language = "none"  # a block says what it is, or is plain
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
# From its wheel this one file: with glyphs as paths it needs no fonts.
mathjax = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
mathjax_path = "tex-svg.js"

add_function_parentheses = False
add_module_names = False
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True  # `HERE`, not the path on the machine that builds
maximum_signature_line_length = 70

html_theme = "sphinx_book_theme"
html_theme_options = {
    "use_download_button": False,  # chapters have their own, in article_header_end
    "use_fullscreen_button": False,
    "navbar_start": [],
    "navbar_center": [],
    "navbar_end": [],
    "navbar_persistent": [],
    "article_header_end": ["chapter-links.html", "article-header-buttons.html"],
    "home_page_in_toc": True,
    "footer_content_items": ["copyright.html"],
    "search_bar_text": "Search the course",
}
html_sidebars = {"index": []}  # its map of the chapters is the way through the course
html_context = {"default_mode": "auto"}  # as the reader's system has it
html_static_path = [
    "_static",
    str(ROOT / "notebooks" / "publish" / "slides" / "widgets.js"),
    str(ROOT / "notebooks" / "publish" / "slides" / "frames.js"),
    str(ROOT / "notebooks" / "publish" / "slides" / "roles.js"),
    str(mathjax / mathjax_path),
]
html_css_files = ["palette.css", "site.css"]
html_js_files = [
    "search.js",
    ("gates.js", {"defer": "defer"}),
    ("widgets.js", {"defer": "defer"}),
    ("frames.js", {"defer": "defer"}),
    ("roles.js", {"defer": "defer"}),
    ("views.js", {"defer": "defer"}),
]
html_scaled_image_link = False  # a live view is no link to its still picture
html_copy_source = False  # chapters offer their notebook files instead
html_use_index = False
templates_path = ["_templates"]
# The slides, where `make slides` has made them; a list, so that a new deck is a new setting.
course_frames = sorted(str(path) for path in (ROOT / "build/slides/.frames").glob("*.json"))
course_decks = sorted(str(path) for path in (ROOT / "build" / "slides").glob("*.html"))
