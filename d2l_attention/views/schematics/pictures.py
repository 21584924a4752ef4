"""The pictures. The docstring of each says in words what is on it, for those who cannot see it.

To add one: a function that returns a ``Diagram``, and its name in ``PICTURES``. The tests measure
that nothing overlaps and that the words give every shape.
"""

from itertools import pairwise

from d2l_attention.views.palette import INK
from d2l_attention.views.schematics.drawing import LEARNED, TENSOR, Diagram


def words_attend() -> Diagram:
    """Boxes and arrows. The words angry, dogs and bark, (3, 5), go through the matrices W_q, W_k
    and W_v. The word dogs is followed: its query (3, 0) meets the keys of all three words, (1, 0),
    (0, 1) and (0, 0), in dot products, which give the scores 3, 0 and 0. The softmax turns them
    into the weights 0.91, 0.05 and 0.05. A weighted sum of all three values, (0, 1), (1, 0) and
    (0, 0), gives the output, 0.05 and 0.91.
    """
    d = Diagram("From words to an answer for dogs: three matrices, then attention", 11.6, 4.9)
    words = d.box("angry\ndogs\nbark\n(3, 5)", 0.75, 2.4, 1.1, 3.5, kind=TENSOR)
    made = {}
    for name, text, y, height in (
        ("q", "query of dogs\n(3, 0)", 3.8, 0.75),
        ("k", "keys\n(1, 0)\n(0, 1)\n(0, 0)", 2.55, 1.1),
        ("v", "values\n(0, 1)\n(1, 0)\n(0, 0)", 1.2, 1.1),
    ):
        matrix = d.box(f"$W_{name}$", 2.1, y, 0.7, 0.6, kind=LEARNED)
        made[name] = d.box(text, 3.75, y, 1.6, height, kind=TENSOR)
        d.arrow(words, matrix)
        d.arrow(matrix, made[name])
    product = d.box("dot\nproducts", 5.6, 3.8, 1.1)
    scores = d.box("scores\n3\n0\n0", 6.95, 3.7, 0.9, 1.1, kind=TENSOR)
    softmax = d.box("softmax\nover keys", 8.2, 3.8, 1.1)
    weights = d.box("weights\n0.91\n0.05\n0.05", 9.6, 3.7, 1.05, 1.1, kind=TENSOR)
    average = d.box("weighted\nsum", 9.2, 1.2, 1.1)
    output = d.box("output\n0.05, 0.91", 10.75, 1.2, 1.45, kind=TENSOR)
    for start, end in pairwise((made["q"], product, scores, softmax, weights)):
        d.arrow(start, end)
    d.arrow(made["k"], product)
    d.arrow(weights, average)
    d.arrow(made["v"], average)
    d.arrow(average, output)
    return d


def scaled_dot_product() -> Diagram:
    """Boxes and arrows from left to right. Queries (B, Q, D) are multiplied by the transpose of
    the keys (B, K, D), that is (Q, D) @ (D, K) for each of B, and divided by the square root of
    D. The scores (B, Q, K) go through a softmax over the keys, which makes weights (B, Q, K).
    They are multiplied by the values (B, K, V), that is (Q, K) @ (K, V). The output is
    (B, Q, V).
    """
    d = Diagram("D disappears in the scores, K disappears in the average", 10, 3.8)
    queries = d.box("queries\n(B, Q, D)", 0.7, 2.5, 1.1, kind=TENSOR)
    keys = d.box("keys\n(B, K, D)", 0.7, 1.45, 1.1, kind=TENSOR)
    values = d.box("values\n(B, K, V)", 0.7, 0.5, 1.1, kind=TENSOR)
    text = "queries @ keysᵀ\n÷ $\\sqrt{D}$\n(Q, D) @ (D, K)"
    score = d.box(text, 2.5, 2.5, 1.8, 1.05)
    softmax = d.box("softmax\nover keys", 4.9, 2.5, 1.1, 1.05)
    average = d.box("weights\n@ values\n(Q, K) @ (K, V)", 7.25, 2.5, 1.7, 1.05)
    output = d.box("output\n(B, Q, V)", 9.3, 2.5, 1.1, kind=TENSOR)
    d.arrow(queries, score)
    d.arrow(keys, score)
    d.arrow(score, softmax, "scores\n(B, Q, K)")
    d.arrow(softmax, average, "weights\n(B, Q, K)")
    d.arrow(values, average)
    d.arrow(average, output)
    return d


def masked_softmax() -> Diagram:
    """Above, a row of boxes from left to right: scores (B, Q, K); hidden ones become the lowest
    number; a softmax over the keys; hidden ones become 0; weights (B, Q, K). Below are the three
    ways to hide: valid_lens gives key < length, (B, 1, K); is_causal gives key ≤ query, (Q, K);
    mask gives True or False for each pair, (B, Q, K). A key is visible where all of them are True.
    This result, (B, Q, K), goes up to the two boxes that fill what is hidden.
    """
    d = Diagram("Fill twice: before the softmax and after it", 10, 4.6)
    scores = d.box("scores\n(B, Q, K)", 0.75, 3.5, 1.2, kind=TENSOR)
    lowest = d.box("fill hidden with\nlowest number", 2.7, 3.5, 1.9)
    softmax = d.box("softmax\nover keys", 5.0, 3.5, 1.5)
    zero = d.box("fill hidden\nwith 0", 7.3, 3.5, 1.9)
    weights = d.box("weights\n(B, Q, K)", 9.25, 3.5, 1.2, kind=TENSOR)
    visible = d.box("visible where all say True", 5.0, 2.15, 6.5, 0.6)
    length = d.box("valid_lens:\nkey < length", 2.7, 0.9, 1.9)
    causal = d.box("is_causal:\nkey ≤ query", 5.0, 0.9, 1.9)
    mask = d.box("mask:\nTrue or False", 7.3, 0.9, 1.9, kind=TENSOR)
    for left, right in ((scores, lowest), (lowest, softmax), (softmax, zero), (zero, weights)):
        d.arrow(left, right)
    d.arrow(length, visible, "(B, 1, K)")
    d.arrow(causal, visible, "(Q, K)")
    d.arrow(mask, visible, "(B, Q, K)")
    d.arrow(visible, lowest, "(B, Q, K)", x=2.7)
    d.arrow(visible, zero, "(B, Q, K)", x=7.3)
    return d


def one_vector_decoder() -> Diagram:
    """One step of the decoder without attention. The GRU takes the state before the step, (B, D),
    the summary of the sentence, (B, D), which is the same at each step, and the embedding of the
    previous word. It makes the state after the step, (B, D), and from that state a linear layer
    makes the scores of words.
    """
    d = Diagram("Without attention, all of the sentence comes through the summary", 10, 4.4)
    state = d.box("state $s_{i-1}$\n(B, D)", 0.85, 2.5, 1.5, kind=TENSOR)
    summary = d.box("summary\n(B, D)", 0.85, 1.45, 1.5, kind=TENSOR)
    word = d.box("previous word", 3.5, 3.55, 1.6, 0.55, kind=TENSOR)
    embedding = d.box("embedding", 6.05, 3.55, 1.4, 0.55, kind=LEARNED)
    gru = d.box("GRU", 8.0, 2.5, 1.1, kind=LEARNED)
    new = d.box("state $s_i$\n(B, D)", 9.35, 2.5, 1.0, kind=TENSOR)
    linear = d.box("linear", 9.35, 1.55, 1.0, 0.55, kind=LEARNED)
    words = d.box("scores\nof words", 9.35, 0.75, 1.0, 0.65, kind=TENSOR)
    for start, end in ((state, gru), (word, embedding), (embedding, gru), (gru, new)):
        d.arrow(start, end)
    d.arrow(summary, gru, "the same at each step")
    d.arrow(new, linear)
    d.arrow(linear, words)
    return d


def bahdanau_decoder() -> Diagram:
    """One step of the decoder. The state before the step, (B, D), goes to the GRU, and as the
    query (B, 1, D) to a learned additive score. The encoder states (B, K, D) are the keys there.
    The scores (B, 1, K) go through a masked softmax. The weights (B, 1, K) are multiplied by the
    encoder states again, now as values (B, K, D). This gives the context (B, D). The GRU takes the
    context, the embedding of the previous word and the state, and makes the state after the step,
    (B, D). From that state a linear layer makes the scores of words.
    """
    d = Diagram("With attention, each step has a context of its own", 10, 5.3)
    state = d.box("state $s_{i-1}$\n(B, D)", 0.85, 3.35, 1.5, kind=TENSOR)
    states = d.box("encoder\nstates\n(B, K, D)", 0.85, 1.65, 1.5, 1.4, kind=TENSOR)
    additive = "additive score\n$w_v\\cdot\\tanh(W_q q + W_k k)$"
    score = d.box(additive, 3.5, 1.95, 2.4, kind=LEARNED)
    softmax = d.box("masked\nsoftmax", 6.05, 1.95, 1.0)
    average = d.box("weights\n@ values", 8.0, 1.95, 1.1)
    word = d.box("previous word", 3.5, 4.4, 1.6, 0.55, kind=TENSOR)
    embedding = d.box("embedding", 6.05, 4.4, 1.4, 0.55, kind=LEARNED)
    gru = d.box("GRU", 8.0, 3.35, 1.1, kind=LEARNED)
    new = d.box("state $s_i$\n(B, D)", 9.35, 3.35, 1.0, kind=TENSOR)
    linear = d.box("linear", 9.35, 1.95, 1.0, kind=LEARNED)
    words = d.box("scores\nof words", 9.35, 0.8, 1.0, kind=TENSOR)
    line = ((state, gru), (gru, new), (new, linear), (linear, words), (word, embedding))
    for start, end in (*line, (embedding, gru)):
        d.arrow(start, end)
    d.arrow(d.branch(3.5, 3.35), score, "query (B, 1, D)")
    d.arrow(states, score, "keys", y=1.95)
    d.arrow(score, softmax, "(B, 1, K)")
    d.arrow(softmax, average, "(B, 1, K)")
    d.arrow(states, average, "values (B, K, D)", y=1.2)
    d.arrow(average, gru, "context $c_i$\n(B, D)")
    return d


def multi_head() -> Diagram:
    """Three rows that meet in one box. Queries (B, Q, D), keys (B, K, D) and values (B, K, D) are
    each multiplied by a learned matrix, W_q, W_k and W_v, and split into heads, (B, H, Q, D/H),
    (B, H, K, D/H) and (B, H, K, D/H). Each of the H heads attends by itself. What the heads found,
    (B, H, Q, D/H), is merged, and multiplied by a fourth learned matrix, W_o. The output is
    (B, Q, D).
    """
    d = Diagram("Each head attends in D/H dimensions; $W_o$ mixes what the heads found", 10, 4.2)
    attend = d.box("attention\nin each\nof H\nheads", 4.95, 2.0, 1.1, 2.65, copies=3)
    for name, n, y in (("queries", "Q", 2.95), ("keys", "K", 2.0), ("values", "K", 1.05)):
        given = d.box(f"{name}\n(B, {n}, D)", 0.7, y, 1.1, kind=TENSOR)
        project = d.box(f"$W_{name[0]}$", 1.8, y, 0.6, kind=LEARNED)
        split = d.box("split", 2.7, y, 0.7)
        d.arrow(given, project)
        d.arrow(project, split)
        d.arrow(split, attend, f"(B, H, {n}, D/H)")
    merge = d.box("merge", 7.45, 2.0, 0.75)
    mix = d.box("$W_o$", 8.3, 2.0, 0.6, kind=LEARNED)
    output = d.box("output\n(B, Q, D)", 9.37, 2.0, 1.1, kind=TENSOR)
    d.arrow(attend, merge, "(B, H, Q, D/H)")
    d.arrow(merge, mix)
    d.arrow(mix, output)
    return d


def transformer() -> Diagram:
    """Two rows of boxes. Above, the English tokens 'he sees her <eos>' become vectors with
    positions, and a straight line leads from these through two 'add & norm' to the English vectors
    (4, 64). Self-attention and FFN read the line and give their answers to these boxes. Below, the
    French so far, '<bos> il la voit', becomes vectors as well, and a line leads through three 'add
    & norm' and a linear layer to the scores (4, 442), and to 'il la voit <eos>'. Causal self-
    attention, cross-attention and FFN read it. The English vectors lead down to the cross-attention
    as keys and values. A frame around each row of sublayers says that this block is there twice.
    """
    d = Diagram("Two residual streams, which meet only in the cross-attention", 10.9, 7.2)
    top, line, above, low = 6.1, 4.95, 2.5, 1.35  # sublayers and line, of encoder and decoder
    tokens = d.box("he sees\nher <eos>", 0.65, line, 1.2, kind=TENSOR)
    given = d.box("vectors +\npositions", 2.0, line, 1.2, kind=LEARNED)
    attend = d.box("self-\nattention", 3.8, top, 1.2, kind=LEARNED)
    norm1, norm2 = (d.box("add &\nnorm", x, line, 0.8, kind=LEARNED) for x in (4.9, 7.1))
    ffn = d.box("FFN", 6.2, top, 0.9, kind=LEARNED)
    output = d.box("English vectors\n(4, 64)", 6.35, 3.65, 1.9, kind=TENSOR)
    for left, right in ((tokens, given), (norm1, norm2)):
        d.arrow(left, right)
    d.arrow(given, norm1)
    for x, name in ((3.4, "q"), (3.8, "k"), (4.2, "v")):
        d.arrow(d.branch(x, line), attend, name)
    d.arrow(attend, norm1)
    d.arrow(d.branch(6.2, line), ffn)
    d.arrow(ffn, norm2)
    d.arrow(norm2, output, x=7.1)
    d.frame("encoder block, twice", 2.85, 4.2, 7.7, 6.6)

    written = d.box("<bos> il\nla voit", 0.65, low, 1.2, kind=TENSOR)
    placed = d.box("vectors +\npositions", 2.0, low, 1.2, kind=LEARNED)
    causal = d.box("causal self-\nattention", 3.65, above, 1.4, kind=LEARNED)
    cross = d.box("cross-\nattention", 5.9, above, 1.2, kind=LEARNED)
    each = d.box("FFN", 8.0, above, 0.9, kind=LEARNED)
    norms = [d.box("add &\nnorm", x, low, 0.8, kind=LEARNED) for x in (4.8, 6.95, 8.9)]
    dense = d.box("linear", 10.2, low, 0.8, kind=LEARNED)
    scores = d.box("scores\n(4, 442)", 10.2, above, 1.1, kind=TENSOR)
    for left, right in pairwise((written, placed, *norms, dense)):
        d.arrow(left, right)
    for x, name in ((3.25, "q"), (3.65, "k"), (4.05, "v")):
        d.arrow(d.branch(x, low), causal, name)
    d.arrow(d.branch(5.9, low), cross, "q")
    d.arrow(d.branch(8.0, low), each)
    for start, end in zip((causal, cross, each), norms, strict=True):
        d.arrow(start, end)
    d.arrow(output, cross, "k", x=5.6)
    d.arrow(output, cross, "v", x=6.2)
    d.arrow(dense, scores)
    d.arrow(scores, d.box("il la voit\n<eos>", 10.2, 3.65, 1.1, kind=TENSOR))
    d.frame("decoder block, twice", 2.85, 0.6, 9.45, 2.98)
    return d


def transformer_block() -> Diagram:
    """Three lanes side by side, for the words 'he', 'sees' and 'her', through one encoder block
    from top to bottom. In each lane a line leads from the word's vector through two 'add & norm' to
    its new vector. Beside this line stand an attention and an FFN, which give their answers to the
    next 'add & norm'. Nine arrows lead from each of the three words to each of the three
    attentions. An FFN reads only the line of its own lane.
    """
    d = Diagram("The words meet in attention only; an FFN stays in its lane", 8.6, 5.8)
    top, attention, first, ffn, second, low = 4.95, 3.5, 2.85, 2.15, 1.5, 0.75
    lanes = (1.0, 3.75, 6.5)
    for start in lanes:
        for lane in lanes:
            end = lane + 1.3 + 0.3 * (lanes.index(start) - 1), attention + 0.26
            d.link((start, top - 0.4), end)
    for word, x in zip(("he", "sees", "her"), lanes, strict=True):
        d.lane(x - 0.75, 0.4, x + 1.9, 5.3)
        given, result = (d.box(word, x, y, 0.8, 0.45, kind=TENSOR) for y in (top, low))
        norms = [d.box("add & norm", x, y, 1.25, 0.4, kind=LEARNED) for y in (first, second)]
        for start, end in pairwise((given, *norms, result)):
            d.arrow(start, end)
        d.branch(x, top - 0.4)
        attend = d.box("attention", x + 1.3, attention, 1.05, 0.45, kind=LEARNED)
        d.arrow(attend, norms[0])
        network = d.box("FFN", x + 1.3, ffn, 1.05, 0.45, kind=LEARNED)
        d.arrow(d.branch(x, ffn), network)
        d.arrow(network, norms[1])
    return d


def latent_attention() -> Diagram:
    """Boxes and arrows from left to right. A token x, (B, n, D), goes through W_q to the queries,
    of which one part is rotated by its position, through W_down to the latent c, (B, n, L), and
    through W_kr and a rotation to the rotary key, (B, n, R). The latent goes through W_uk and W_uv,
    which give the keys and values of every head. Each head attends with queries, keys, values and
    the rotary key. A frame around latent and rotary key says that the cache keeps them.
    """
    d = Diagram("Latent and rotary key are kept; keys and values come from the latent", 10, 4.45)
    token = d.box("token x\n(B, n, D)", 0.75, 2.25, 1.1, 3.2, kind=TENSOR)
    to_q = d.box("$W_q$, rotate\none part", 2.45, 3.4, 1.5, kind=LEARNED)
    down = d.box("$W_{down}$", 2.45, 2.3, 1.0, kind=LEARNED)
    to_kr = d.box("$W_{kr}$, rotate", 2.45, 1.25, 1.5, kind=LEARNED)
    latent = d.box("latent c\n(B, n, L)", 4.6, 2.3, 1.4, kind=TENSOR)
    rotary_key = d.box("rotary key\n(B, n, R)", 4.6, 1.25, 1.4, kind=TENSOR)
    d.frame("the cache", 3.7, 0.42, 5.5, 2.83)
    up = d.box("$W_{uk}$, $W_{uv}$", 6.5, 2.3, 1.4, kind=LEARNED)
    attend = d.box("attend\nin each\nhead", 9.15, 2.25, 1.2, 3.2)
    for step in (to_q, down, to_kr):
        d.arrow(token, step)
    for start, end in ((down, latent), (to_kr, rotary_key), (latent, up), (rotary_key, attend)):
        d.arrow(start, end)
    d.arrow(up, attend, "keys, values")
    d.arrow(to_q, attend, "queries")
    return d


def absorbed_matrix() -> Diagram:
    """Two rows of boxes. Explicit: n latents, (n, L), go through the matrix W_uk,h and become n
    keys, (n, d), which are compared with one query, (1, d). Absorbed: the query, (1, d), goes
    through the same matrix and becomes a new query, (1, L), which is compared with the n latents,
    (n, L), themselves. Both give the same scores, (1, n).
    """
    d = Diagram("The matrix multiplies n latents, or a single query", 10, 4.9)
    many, one = "latents c\n(n, L)", "query\n(1, d)"
    rows = (3.75, "explicit", many, "keys\n(n, d)", one), (1.8, "absorbed", one, "", many)
    for y, name, given, made, other in rows:
        d.ax.text(0.15, y, name, fontsize=14, color=INK, va="center")
        start = d.box(given, 2.1, y, 1.4, kind=TENSOR)
        matrix = d.box("$W_{uk,h}$", 3.95, y, 1.1, kind=LEARNED)
        result = d.box(made or "new query\n(1, L)", 5.75, y, 1.3, kind=TENSOR)
        compare = d.box("compare", 7.5, y, 1.2)
        scores = d.box("scores\n(1, n)", 9.2, y, 1.2, kind=TENSOR)
        line = (start, matrix, result, compare, scores)
        for left, right in pairwise(line):
            d.arrow(left, right)
        d.arrow(d.box(other, 5.75, y - 0.95, 1.3, kind=TENSOR), compare)
    return d


def delta_rule() -> Diagram:
    """One step as boxes and arrows. The key, (1, D), queries the state, (D, V), which answers k S.
    This answer is subtracted from the value v, (1, V), and the difference is multiplied by beta.
    The key enters a second time: the difference is written under it, and the product is added to
    the state. The new state has the same shape, (D, V).
    """
    d = Diagram("The rule writes only what the state does not yet answer", 10, 4.3)
    state = d.box("state S\n(D, V)", 0.85, 3.4, 1.2, kind=TENSOR)
    key = d.box("key k\n(1, D)", 0.85, 1.6, 1.2, 2.2, kind=TENSOR)
    query_it = d.box("query\nk S", 2.75, 2.3, 1.2)
    value = d.box("value v\n(1, V)", 5.0, 1.25, 1.5, kind=TENSOR)
    differ = d.box("difference\nv \u2212 k S", 5.0, 2.3, 1.5)
    write = d.box("write it\nunder k", 7.05, 2.3, 1.3)
    plus = d.box("add", 7.05, 3.4, 1.0)
    result = d.box("new state\n(D, V)", 9.1, 3.4, 1.4, kind=TENSOR)
    d.arrow(state, plus)
    d.arrow(d.branch(2.75, 3.4), query_it)
    for start, end in ((key, query_it), (query_it, differ), (value, differ)):
        d.arrow(start, end)
    d.arrow(key, write, y=0.7)
    d.arrow(differ, write, "\u03b2")
    d.arrow(write, plus)
    d.arrow(plus, result)
    return d


def indexer() -> Diagram:
    """Two ways from the tokens, (n, D), to the output, (n, D). Below, the tokens give queries, keys
    and values to the attention. Above, the indexer scores all pairs, (n, n), the best k of each row
    are chosen, and this choice is the mask of the attention.
    """
    d = Diagram("The indexer scores all n keys, and the attention reads k of them", 10, 3.7)
    tokens = d.box("tokens X\n(n, D)", 0.95, 2.05, 1.4, 2.2, kind=TENSOR)
    index = d.box("indexer", 2.85, 2.75, 1.3, kind=LEARNED)
    scored = d.box("scores I\n(n, n)", 4.75, 2.75, 1.4, kind=TENSOR)
    choose = d.box("best k\nof a row", 6.75, 2.75, 1.4)
    to_qkv = d.box("$W_q$, $W_k$, $W_v$", 3.6, 1.3, 1.9, kind=LEARNED)
    attention = d.box("attention", 6.75, 1.3, 1.4)
    output = d.box("output\n(n, D)", 9.1, 1.3, 1.3, kind=TENSOR)
    for start, end in ((tokens, index), (index, scored), (scored, choose), (tokens, to_qkv)):
        d.arrow(start, end)
    d.arrow(choose, attention, "mask")
    d.arrow(to_qkv, attention)
    d.arrow(attention, output)
    return d


PICTURES = {
    "words attend": words_attend,
    "scaled dot-product": scaled_dot_product,
    "masked softmax": masked_softmax,
    "one-vector decoder": one_vector_decoder,
    "Bahdanau decoder": bahdanau_decoder,
    "multi-head": multi_head,
    "Transformer": transformer,
    "Transformer block": transformer_block,
    "latent attention": latent_attention,
    "absorbed matrix": absorbed_matrix,
    "delta rule": delta_rule,
    "indexer": indexer,
}
