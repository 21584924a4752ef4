"""Decoder blocks put together from parts, right and wrong, for 8.4."""

from collections.abc import Callable, Sequence

from torch import Tensor

# One sublayer with what stands around it: (begin, X, f, norm, dropout) -> X, where ``begin`` is
# what came into the block.


def post(begin, X, f, norm, dropout):
    return norm(X + dropout(f(X)))


def pre(begin, X, f, norm, dropout):
    return X + dropout(f(norm(X)))


def post_without_residual(begin, X, f, norm, dropout):
    return norm(dropout(f(X)))


def pre_without_residual(begin, X, f, norm, dropout):
    return dropout(f(norm(X)))


def norm_then_sum(begin, X, f, norm, dropout):
    return X + norm(dropout(f(X)))


def norm_dropout_sum(begin, X, f, norm, dropout):
    return X + dropout(norm(f(X)))


def no_norm(begin, X, f, norm, dropout):
    return X + dropout(f(X))


def norm_twice(begin, X, f, norm, dropout):
    return norm(X + dropout(f(norm(X))))


def residual_normalised(begin, X, f, norm, dropout):
    X = norm(X)
    return X + dropout(f(X))


def post_from_the_beginning(begin, X, f, norm, dropout):
    return norm(begin + dropout(f(X)))


def pre_from_the_beginning(begin, X, f, norm, dropout):
    return begin + dropout(f(norm(X)))


def post_without_dropout(begin, X, f, norm, dropout):
    return norm(X + f(X))


def pre_without_dropout(begin, X, f, norm, dropout):
    return X + f(norm(X))


def post_dropout_on_the_sum(begin, X, f, norm, dropout):
    return norm(dropout(X + f(X)))


def pre_dropout_on_the_sum(begin, X, f, norm, dropout):
    return dropout(X + f(norm(X)))


def dropout_on_the_norm(begin, X, f, norm, dropout):
    return dropout(norm(X + f(X)))


def post_dropout_on_the_way_in(begin, X, f, norm, dropout):
    return norm(X + f(dropout(X)))


def pre_dropout_on_the_way_in(begin, X, f, norm, dropout):
    return X + f(dropout(norm(X)))


# Which queries, keys and values attention2 gets from Y, the target, and the source ------------


def source_is_asked(Y: Tensor, sources: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return Y, sources, sources


def source_asks(Y: Tensor, sources: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return sources, Y, Y


def only_the_target(Y: Tensor, sources: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return Y, Y, Y


def only_the_source(Y: Tensor, sources: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return sources, sources, sources


def target_as_values(Y: Tensor, sources: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return Y, sources, Y


def target_as_keys(Y: Tensor, sources: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return Y, Y, sources


# Together ---------------------------------------------------------------------------------


def block_with(
    *,
    post: Callable = post,
    pre: Callable = pre,
    cross: Callable = source_is_asked,
    order: Sequence[int] = (0, 1, 2),
    norm_of: Sequence[int] = (0, 1, 2),
    bare: Sequence[int] = (),
) -> Callable:
    """A decoder block, right but for the parts that are given.

    ``order`` of the sublayers 0, 1, 2: attention1, attention2, ffn; ``norm_of`` says which of
    the three norms each of them gets, and ``bare`` which have no residual connection.
    """
    bare_post, bare_pre = post_without_residual, pre_without_residual

    def decoder_block(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
        sublayers = (
            lambda Y: attention1(Y, Y, Y),
            lambda Y: attention2(*cross(Y, sources)),
            ffn,
        )
        begin = X
        for number in order:
            if number in bare:
                wrap = bare_pre if pre_norm else bare_post
            else:
                wrap = pre if pre_norm else post
            X = wrap(begin, X, sublayers[number], norms[norm_of[number]], dropout)
        return X

    return decoder_block


right = block_with()

# Too special to be parts ---------------------------------------------------------------------


def only_queries_normalised(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    if not pre_norm:
        return right(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm)
    X = X + dropout(attention1(norms[0](X), X, X))
    X = X + dropout(attention2(norms[1](X), sources, sources))
    return X + dropout(ffn(norms[2](X)))


def sources_normalised(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    if pre_norm:
        sources = norms[1](sources)
    return right(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm)


def norm_at_the_end(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    X = right(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm)
    return norms[2](X) if pre_norm else X


def all_side_by_side(X, sources, attention1, attention2, ffn, norms, dropout, pre_norm):
    sublayers = (lambda Y: attention1(Y, Y, Y), lambda Y: attention2(Y, sources, sources), ffn)
    wrap, sums = pre if pre_norm else post, 0
    for f, norm in zip(sublayers, norms, strict=True):
        sums = sums + wrap(X, X, f, norm, dropout)
    return sums
