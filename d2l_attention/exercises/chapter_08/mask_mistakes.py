"""Wrong answers to 8.3, as students give them."""

import torch


def words(lens, num):
    return (torch.arange(num) < lens[:, None])[:, None]


def past(num, ahead=0):
    steps = torch.arange(num)
    return steps <= steps[:, None] + ahead


def everything_visible(src_lens, tgt_lens, num_src, num_tgt):
    source = torch.ones(1, num_src, dtype=torch.bool)
    return source, past(num_tgt), source


def rows_hidden(src_lens, tgt_lens, num_src, num_tgt):
    rows = words(src_lens, num_src).mT
    return rows, past(num_tgt), words(src_lens, num_src)


def causal_encoder(src_lens, tgt_lens, num_src, num_tgt):
    source = words(src_lens, num_src)
    return source & past(num_src), past(num_tgt), source


def causal_everywhere(src_lens, tgt_lens, num_src, num_tgt):
    cross = torch.arange(num_src) <= torch.arange(num_tgt)[:, None]
    return past(num_src), past(num_tgt), cross


def causal_cross(src_lens, tgt_lens, num_src, num_tgt):
    source = words(src_lens, num_src)
    cross = torch.arange(num_src) <= torch.arange(num_tgt)[:, None]
    return source, past(num_tgt), source & cross


def causal_cross_without_padding(src_lens, tgt_lens, num_src, num_tgt):
    cross = torch.arange(num_src) <= torch.arange(num_tgt)[:, None]
    return words(src_lens, num_src), past(num_tgt), cross


def padding_only(src_lens, tgt_lens, num_src, num_tgt):
    source = words(src_lens, num_src)
    return source, words(tgt_lens, num_tgt), source


def no_future_anywhere(src_lens, tgt_lens, num_src, num_tgt):
    source = words(src_lens, num_src)
    return source, torch.ones(num_tgt, num_tgt, dtype=torch.bool), source


def strictly_past(src_lens, tgt_lens, num_src, num_tgt):
    source = words(src_lens, num_src)
    return source, past(num_tgt, ahead=-1), source


def one_step_ahead(src_lens, tgt_lens, num_src, num_tgt):
    source = words(src_lens, num_src)
    return source, past(num_tgt, ahead=1) & words(tgt_lens, num_tgt), source


def future_only(src_lens, tgt_lens, num_src, num_tgt):
    source = words(src_lens, num_src)
    return source, past(num_tgt).mT, source


def cross_by_target(src_lens, tgt_lens, num_src, num_tgt):
    return words(src_lens, num_src), past(num_tgt), words(tgt_lens, num_src)


def cross_unmasked(src_lens, tgt_lens, num_src, num_tgt):
    return words(src_lens, num_src), past(num_tgt), torch.ones(1, num_src, dtype=torch.bool)


def cross_rows_by_target(src_lens, tgt_lens, num_src, num_tgt):
    return words(src_lens, num_src), past(num_tgt), words(tgt_lens, num_tgt).mT


def decoder_by_source(src_lens, tgt_lens, num_src, num_tgt):
    source = words(src_lens, num_src)
    return source, past(num_tgt) & words(src_lens, num_tgt), source


def inverted(src_lens, tgt_lens, num_src, num_tgt):
    source = ~words(src_lens, num_src)
    return source, ~past(num_tgt), source


def queries_and_keys_swapped(src_lens, tgt_lens, num_src, num_tgt):
    source = words(src_lens, num_src)
    return source, past(num_tgt), source.mT.repeat(1, 1, num_tgt)


def encoder_and_decoder_swapped(src_lens, tgt_lens, num_src, num_tgt):
    source = words(src_lens, num_src)
    return past(num_tgt), source, source


def decoder_and_cross_swapped(src_lens, tgt_lens, num_src, num_tgt):
    source = words(src_lens, num_src)
    return source, source, past(num_tgt)


def without_query_axis(src_lens, tgt_lens, num_src, num_tgt):
    source = words(src_lens, num_src)[:, 0]
    return source, past(num_tgt), source


def longest_for_all(src_lens, tgt_lens, num_src, num_tgt):
    source = (torch.arange(num_src) < src_lens.max())[None]
    return source, past(num_tgt), source


def first_for_all(src_lens, tgt_lens, num_src, num_tgt):
    source = (torch.arange(num_src) < src_lens[0])[None]
    return source, past(num_tgt), source


def two_masks(src_lens, tgt_lens, num_src, num_tgt):
    return words(src_lens, num_src), past(num_tgt)


def as_numbers(src_lens, tgt_lens, num_src, num_tgt):
    source = words(src_lens, num_src)
    return source, torch.ones(num_tgt, num_tgt).tril(), source


def additive(src_lens, tgt_lens, num_src, num_tgt):
    source = words(src_lens, num_src)
    return torch.zeros(source.shape).masked_fill(~source, -torch.inf), past(num_tgt), source


def one_word_too_many(src_lens, tgt_lens, num_src, num_tgt):
    source = words(src_lens + 1, num_src)
    return source, past(num_tgt), source


def last_word_hidden(src_lens, tgt_lens, num_src, num_tgt):
    source = words(src_lens - 1, num_src)
    return source, past(num_tgt), source
