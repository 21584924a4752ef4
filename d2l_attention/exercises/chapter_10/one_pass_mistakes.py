"""Wrong answers to 10.3, as students give them."""

import torch


def of_nothing():
    return torch.tensor(-torch.inf), torch.tensor(0.0)


def sums_with(
    *,
    begin=-torch.inf,
    larger=lambda maximum, tile: torch.maximum(maximum, tile.amax(dim=-1)),
    factor=lambda old, new: (old - new).exp(),
    added=lambda tile, new: (tile - new[:, None]).exp().sum(dim=-1),
    joined=lambda total, factor, added: total * factor + added,
):
    """One pass, right but for the parts that are given, and for rows of -inf."""

    def online_sums(tiles):
        maximum, total = torch.tensor(begin), torch.tensor(0.0)
        for tile in tiles:
            new = larger(maximum, tile)
            total = joined(total, factor(maximum, new), added(tile, new))
            maximum = new
        return maximum, total

    return online_sums


def not_rescaled(tiles):
    maximum, total = of_nothing()
    for tile in tiles:
        maximum = torch.maximum(maximum, tile.amax(dim=-1))
        total = total + (tile - maximum[:, None]).exp().sum(dim=-1)
    return maximum, total


def rescaled_too_late(tiles):
    maximum, total = of_nothing()
    for tile in tiles:
        maximum = torch.maximum(maximum, tile.amax(dim=-1))
        total = total * (maximum - maximum).exp() + (tile - maximum[:, None]).exp().sum(dim=-1)
    return maximum, total


wrong_direction = sums_with(begin=-1e9, factor=lambda old, new: (new - old).clamp(max=80).exp())
direction_from_infinity = sums_with(factor=lambda old, new: (new - old).exp())
rescaled_with_the_tile = sums_with(joined=lambda total, factor, added: (total + added) * factor)
last_tile_alone = sums_with(joined=lambda total, factor, added: added)
weights_not_summed = sums_with(added=lambda tile, new: (tile - new[:, None]).exp().amax(dim=-1))
mean_for_the_sum = sums_with(added=lambda tile, new: (tile - new[:, None]).exp().mean(dim=-1))
newest_maximum = sums_with(larger=lambda maximum, tile: tile.amax(dim=-1))
begins_at_0 = sums_with(begin=0.0)
nan_where_all_is_hidden = sums_with()
one_maximum_for_all_rows = sums_with(
    larger=lambda maximum, tile: maximum.max().maximum(tile.amax()).expand(len(tile))
)
own_maximum_in_each_tile = sums_with(
    added=lambda tile, new: (tile - tile.amax(dim=-1, keepdim=True)).exp().sum(dim=-1)
)


def without_a_maximum(tiles):
    maximum, total = of_nothing()
    for tile in tiles:
        maximum = torch.maximum(maximum, tile.amax(dim=-1))
        total = total + tile.exp().sum(dim=-1)
    return maximum, total


def shifted_at_the_end(tiles):
    maximum, total = without_a_maximum(tiles)
    return maximum, total / maximum.exp()


def through_the_logarithm(tiles):
    """The logarithm of a sum that has overflowed is no help."""
    maximum, total = without_a_maximum(tiles)
    return maximum, (total.log() - maximum).exp()


def two_passes(tiles):
    maximum = torch.tensor(-torch.inf)
    for tile in tiles:
        maximum = torch.maximum(maximum, tile.amax(dim=-1))
    shift = maximum.masked_fill(maximum == -torch.inf, 0.0)
    return maximum, sum((tile - shift[:, None]).exp().sum(dim=-1) for tile in tiles)


def all_in_one_row(tiles):
    scores = torch.cat(list(tiles), dim=-1)
    maximum = scores.amax(dim=-1)
    shift = maximum.masked_fill(maximum == -torch.inf, 0.0)
    return maximum, (scores - shift[:, None]).exp().sum(dim=-1)


def tiles_as_a_list(tiles):
    maximum = tiles[0].amax(dim=-1)
    return maximum, (tiles[0] - maximum[:, None]).exp().sum(dim=-1)


def joined_at_once(tiles):
    return torch.cat(tiles, dim=-1).amax(dim=-1), torch.tensor(1.0)


def rows_without_an_axis(tiles):
    """Where tiles are square no error tells."""
    return sums_with(added=lambda tile, new: (tile - new).exp().sum(dim=-1))(tiles)


def first_row_alone(tiles):
    return sums_with()(tile[:1] for tile in tiles)


def columns_kept(tiles):
    maximum, total = sums_with()(tiles)
    return maximum[:, None], total[:, None]


def sum_alone(tiles):
    return sums_with()(tiles)[1]


def the_other_way_round(tiles):
    maximum, total = sums_with()(tiles)
    return total, maximum


def log_of_the_sum(tiles):
    maximum, total = sums_with()(tiles)
    return maximum, maximum + total.log()


def without_return(tiles):
    sums_with()(tiles)


def hidden_as_a_billion(tiles):
    """-inf made finite: a row that is all hidden then looks like a row of equal scores."""
    return sums_with()(tile.clamp(min=-1e9) for tile in tiles)


def single_precision(tiles):
    return sums_with(begin=-1e9)(tile.float() for tile in tiles)
