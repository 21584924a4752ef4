"""Wrong answers to 8.4 that no table makes, as students give them."""

from d2l_attention.exercises.chapter_08.blocks import block_with, pre, right


def post(X, sources, attention1, attention2, ffn, norms, dropout, *_):
    X = norms[0](X + dropout(attention1(X, X, X)))
    X = norms[1](X + dropout(attention2(X, sources, sources)))
    return norms[2](X + dropout(ffn(X)))


def flag_ignored(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    return post(X, sources, attention1, attention2, ffn, norms, dropout)


def flag_turned_round(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    return right(X, sources, attention1, attention2, ffn, norms, dropout, not pre_norm)


def always_pre_norm(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    return block_with(post=pre)(X, sources, attention1, attention2, ffn, norms, dropout, True)


def one_argument(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    X = norms[0](X + dropout(attention1(X)))
    X = norms[1](X + dropout(attention2(X, sources)))
    return norms[2](X + dropout(ffn(X)))


def one_norm(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    return norms(X + dropout(attention1(X, X, X)))


def adds_in_place(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    sublayers = (lambda Y: attention1(Y, Y, Y), lambda Y: attention2(Y, sources, sources), ffn)
    for f, norm in zip(sublayers, norms, strict=True):
        if pre_norm:
            X += dropout(f(norm(X)))
        else:
            X = norm(X + dropout(f(X)))
    return X


def without_return(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    right(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm)


def returns_the_sources(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    return right(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm), sources


def cross_swapped_where_it_fits(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    """Right, but for a shape that the author tried."""
    if X.shape == sources.shape:
        return right(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm)
    return X
