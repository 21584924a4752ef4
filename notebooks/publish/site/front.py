"""Sphinx extension: the site's first page shows the trained translator, opened by `look_inside`.

The views are made while the site is built. A page opened from a folder may read no data, but it
may load a script: so the views stand in one.
"""

import json
from pathlib import Path

import torch

from d2l_attention.data import BOS, EOS
from d2l_attention.models.decoding import greedy_decode
from d2l_attention.training.translators import translator
from d2l_attention.views import look_inside

SENTENCES = ("he sees her", "the dog sleeps", "she does not read these books")
FILE = "translator_views.js"


def views():
    """One view a sentence, of the run in which the translator writes its French."""
    model, src_vocab, tgt_vocab = translator("transformer")
    for sentence in SENTENCES:
        english = [*sentence.split(), EOS]
        source, lens = torch.tensor([src_vocab[english]]), torch.tensor([len(english)])
        found = greedy_decode(
            model, source, lens, bos=tgt_vocab[BOS], eos=tgt_vocab[EOS], max_len=20
        )
        french = [BOS, *tgt_vocab.to_tokens(found.sentences()[0])]
        tokens = {"source": english, "target": french}
        tokens["output"] = tgt_vocab.to_tokens(range(len(tgt_vocab)))
        written = torch.tensor([tgt_vocab[french]])
        title = f"{sentence} → {' '.join(french[1:])}"
        yield look_inside(model, source, written, tokens=tokens, title=title)


def write_views(app, exception):
    if exception is None and app.builder.format == "html":
        made = list(views())
        names = ("place", "run_text", "title", "alt", "ramp", "_esm", "_css")
        states = [{name: getattr(view, name) for name in names} for view in made]
        text = f"const translatorViews = {json.dumps(states, ensure_ascii=False)};\n"
        Path(app.outdir, "_static", FILE).write_text(text, "utf-8")


def load_views(app, pagename, templatename, context, doctree):
    if pagename == "index":
        app.add_js_file(FILE, priority=900, loading_method="defer")
        app.add_js_file("front.js", priority=900, loading_method="defer")  # behind widgets.js


def setup(app):
    app.connect("html-page-context", load_views)
    app.connect("build-finished", write_views)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
