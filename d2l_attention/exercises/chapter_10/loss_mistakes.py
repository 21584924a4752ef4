"""Wrong answers to 10.6, as students give them."""

import torch


def real_tokens(losses, valid_lens):
    return torch.arange(losses.shape[1]) < valid_lens[:, None]


def sum_and_count(losses, valid_lens):
    real = real_tokens(losses, valid_lens)
    return losses.masked_fill(~real, 0.0).sum(), real.sum()


def never_nan(losses, valid_lens, all_reduce, num_processes):
    total, count = sum_and_count(losses, valid_lens)
    return total / count.clamp(min=1)


def whole_count(losses, valid_lens, all_reduce, num_processes):
    total, count = sum_and_count(losses, valid_lens)
    return total / all_reduce(count)


def sum_alone(losses, valid_lens, all_reduce, num_processes):
    return sum_and_count(losses, valid_lens)[0]


def sum_times_processes(losses, valid_lens, all_reduce, num_processes):
    return sum_and_count(losses, valid_lens)[0] * num_processes


def own_mean_times_processes(losses, valid_lens, all_reduce, num_processes):
    total, count = sum_and_count(losses, valid_lens)
    return total * num_processes / count.clamp(min=1)


def divided_by_processes(losses, valid_lens, all_reduce, num_processes):
    return whole_count(losses, valid_lens, all_reduce, num_processes) / num_processes


def by_sequences(losses, valid_lens, all_reduce, num_processes):
    return sum_and_count(losses, valid_lens)[0] / len(losses)


def by_all_sequences(losses, valid_lens, all_reduce, num_processes):
    total, _ = sum_and_count(losses, valid_lens)
    return total * num_processes / all_reduce(len(losses))


def by_places(losses, valid_lens, all_reduce, num_processes):
    total, _ = sum_and_count(losses, valid_lens)
    return total * num_processes / all_reduce(losses.numel())


def all_places(losses, valid_lens, all_reduce, num_processes):
    return losses.mean()


def mean_of_counts(losses, valid_lens, all_reduce, num_processes):
    """Right: the mean number of tokens instead of the sum, and no factor."""
    total, count = sum_and_count(losses, valid_lens)
    return total / (all_reduce(count) / num_processes)


def everything_summed(losses, valid_lens, all_reduce, num_processes):
    total, count = sum_and_count(losses, valid_lens)
    return all_reduce(total) / all_reduce(count)


def number_of_all_gradient_of_one(losses, valid_lens, all_reduce, num_processes):
    total, count = sum_and_count(losses, valid_lens)
    others = all_reduce(total) - total.detach()
    return (total + others) / all_reduce(count)


def early_return(losses, valid_lens, all_reduce, num_processes):
    total, count = sum_and_count(losses, valid_lens)
    if count == 0:
        return total * 0
    return total * num_processes / all_reduce(count)


def padding_multiplied(losses, valid_lens, all_reduce, num_processes):
    real = real_tokens(losses, valid_lens)
    return (losses * real).sum() * num_processes / all_reduce(real.sum())


def one_token_too_many(losses, valid_lens, all_reduce, num_processes):
    return right(losses, (valid_lens + 1).clamp(max=losses.shape[1]), all_reduce, num_processes)


def right(losses, valid_lens, all_reduce, num_processes):
    total, count = sum_and_count(losses, valid_lens)
    return total * num_processes / all_reduce(count)


def python_number(losses, valid_lens, all_reduce, num_processes):
    return right(losses, valid_lens, all_reduce, num_processes).item()


def count_of_the_first(losses, valid_lens, all_reduce, num_processes):
    """The real lengths of this process, but the whole batch's places."""
    total, _ = sum_and_count(losses, valid_lens)
    return total * num_processes / all_reduce(valid_lens.max())


def two_processes(losses, valid_lens, all_reduce, num_processes):
    return right(losses, valid_lens, all_reduce, 2)


def unequal_shapes(losses, valid_lens, all_reduce, num_processes):
    lens = all_reduce(valid_lens)
    return sum_and_count(losses, valid_lens)[0] * num_processes / lens.sum()


def in_place(losses, valid_lens, all_reduce, num_processes):
    with torch.no_grad():
        losses[~real_tokens(losses, valid_lens)] = 0.0
    return losses.sum() * num_processes / all_reduce(valid_lens.sum())


def without_return(losses, valid_lens, all_reduce, num_processes):
    right(losses, valid_lens, all_reduce, num_processes)
