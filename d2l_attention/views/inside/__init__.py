"""A model from the outside in: one run, recorded, and a view that opens its parts.

``recording`` runs the model, ``looks`` finds what its attentions did, ``labels`` says which words
stand at which axis, ``names`` and ``known`` what a part is called and what it does, ``sending``
makes text of it for the browser, ``still`` a picture, ``inside_view`` the view.
"""
