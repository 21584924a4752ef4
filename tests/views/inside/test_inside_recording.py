"""What ``look_inside`` records of a run, for every kind of module; that it leaves none behind."""

import pytest
import torch
from made import Made
from torch import nn

from d2l_attention import DotProductAttention, MultiHeadAttention
from d2l_attention.models.encoder_decoder import EncoderDecoder
from d2l_attention.models.seq2seq import Seq2SeqAttentionDecoder, Seq2SeqEncoder
from d2l_attention.training.presets import MODELS
from d2l_attention.variants import LearnedQueries
from d2l_attention.views.inside.recording import record
from d2l_attention.views.inside.sending import parts_of

X = torch.zeros(2)
SOURCE, TARGET = ["he", "sees", "her", "<eos>"], ["<bos>", "il", "la", "voit"]


def translator(name="transformer"):
    torch.manual_seed(0)
    model = MODELS[name](17, 19, 8)
    source, target = torch.randint(17, (1, 4)), torch.randint(19, (1, 4))
    return model, (source, target, torch.tensor([4]))


def recorded(model, *inputs, tokens=None, **named):
    return record(model, inputs, named, tokens).call


def looks(call):
    return [call.look] if call.look else [look for each in call.calls for look in looks(each)]


def names(run_or_call, depth=1):
    """The names of the parts, nested as they were called."""
    parts = parts_of(run_or_call)

    def below(part, left):
        inner = [parts[number] for number in part.below]
        return {each.name: below(each, left - 1) if left else {} for each in inner}

    return below(parts[0], depth)


def test_the_parts_stand_in_the_order_of_their_calls():
    model, inputs = translator()
    found = names(record(model, inputs, {}, None), depth=3)
    assert list(found) == ["encoder", "decoder"]
    assert list(found["encoder"]) == ["embedding", "positions", "block 1", "block 2"]
    assert list(found["decoder"]["block 2"]) == [
        "self-attention", "add and norm 1", "cross-attention", "add and norm 2", "network",
        "add and norm 3",
    ]  # fmt: skip
    assert list(found["decoder"]["block 1"]["network"]) == ["dense1", "relu", "dense2"]


KEYS_OF_SOURCE = "attention2.W_k", "attention2.W_v"


def test_words_follow_the_tensors_also_where_both_sentences_have_one_length():
    model, inputs = translator()
    call = recorded(model, *inputs, tokens={"source": SOURCE, "target": TARGET})

    def walk(each, path=""):
        yield path, each
        for inner in each.calls:
            yield from walk(inner, inner.path)

    for path, each in walk(call):
        words = [held.words for held in each.outputs if held.shape != (1,)]
        of_source = path.startswith("encoder") or path.endswith(KEYS_OF_SOURCE)
        expected = tuple(SOURCE if of_source else TARGET)
        assert words == [expected] * len(words), path
    cross = call.calls[1].calls[2].calls[2].look
    assert (cross.query_words, cross.key_words) == (tuple(TARGET), tuple(SOURCE))
    inner = call.calls[1].calls[2].calls[0].look
    assert inner.query_words == inner.key_words == tuple(TARGET)


def attends(self, source, target):
    """A translator as one writes it: what is embedded gets positions before a part sees it."""
    memory, X = (embed(tokens) + self.P for embed, tokens in ((self.E, source), (self.F, target)))
    return self.attention(X, memory, memory)


HEADS = MultiHeadAttention(8, 2, 0.0), nn.MultiheadAttention(8, 2, batch_first=True)


@pytest.mark.parametrize("attention", [DotProductAttention(0.0), *HEADS])
def test_words_follow_through_a_model_of_ones_own(attention):
    """harvardnlp/annotated-transformer#104: the rows had the words of the other language."""
    parts = {"E": nn.Embedding(9, 8), "F": nn.Embedding(9, 8), "P": torch.rand(4, 8)}
    model = Made(attends, attention=attention, **parts)
    source, target = torch.tensor([[[1, 2, 3, 4]], [[1, 2, 3, 4]]])  # rows of one tensor
    words = {"input 0": SOURCE, "input 1": TARGET}
    look = looks(recorded(model, source, target, tokens=words))[0]
    assert (look.query_words, look.key_words) == (tuple(TARGET), tuple(SOURCE))


def test_learned_queries_have_no_words_though_they_are_as_many():
    model = nn.Sequential(nn.Embedding(9, 8), LearnedQueries(4, 8, 2, 0.0))
    look = looks(recorded(model, torch.tensor([[1, 2, 3, 4]]), tokens=SOURCE))[0]
    assert (look.query_words, look.key_words) == (None, tuple(SOURCE))


def test_self_attention_says_that_its_three_inputs_are_one():
    model, inputs = translator()
    block = recorded(model, *inputs).calls[1].calls[2]
    assert [held.name for held in block.calls[0].inputs] == ["queries = keys = values"]
    assert [held.name for held in block.calls[2].inputs] == ["queries", "keys = values"]


def test_the_words_that_a_model_scores_are_ranked():
    says = Made(lambda self, X: torch.tensor([[0.0, 3.0, 1.0], [2.0, 0.0, 1.0]]) + 0 * X)
    call = recorded(says, torch.zeros(1), tokens={"output": ["la", "voit", "il"]})
    (first, share), second, _ = call.outputs[0].best[0]
    assert (first, second[0]) == ("voit", "il")
    assert share == pytest.approx(torch.tensor([0.0, 3.0, 1.0]).softmax(0)[1].item())
    assert [word for word, _ in call.outputs[0].best[1]] == ["la", "il", "voit"]


class First(nn.Module):
    def forward(self, X):
        return X[:, 0]  # a view: the memory is that of all words


def test_classes_and_features_have_no_words_though_they_are_as_many():
    classify = nn.Sequential(nn.Embedding(9, 4), First(), nn.Linear(4, 4))
    run = record(classify, (torch.tensor([[1, 2, 3, 4]]),), {}, list("abcd"))
    assert [call.outputs[0].words for call in run.call.calls] == [tuple("abcd"), None, None]


def prefix(X):
    return torch.cat([torch.zeros(1, 1, X.shape[2]), X], dim=1)


POOLED = [
    [lambda X: X.mean(dim=1, keepdim=True)],
    [lambda X: X[:, :1]],
    [lambda X: X[:, ::2]],
    [prefix],
    [lambda X: X.mT, nn.AvgPool1d(2), lambda X: X.mT],
    [lambda X: torch.fft.fft(X, dim=1)[:, :1], lambda X: X.real],
]


@pytest.mark.parametrize("steps", POOLED)
def test_what_is_pooled_has_no_words_at_its_features(steps):
    parts = [
        step if isinstance(step, nn.Module) else Made(lambda _, X, f=step: f(X)) for step in steps
    ]
    model = nn.Sequential(nn.Embedding(11, 5), *parts, nn.Linear(5, 5))
    call = recorded(model, torch.tensor([[1, 2, 3, 4, 7]]), tokens=[*"abcde"])
    assert [each.outputs[0].words for each in call.calls][1:] == [None] * (len(steps) + 1)
    assert call.calls[0].outputs[0].words == tuple("abcde") and call.outputs[0].words is None


def test_words_stay_where_as_many_features_are_cut_into_heads():
    steps = [
        lambda X: X.view(1, 5, 2, 5), lambda X: X.transpose(1, 2), lambda X: X + 1,
        lambda X: X.transpose(1, 2).flatten(2), lambda X: X.chunk(2, dim=-1)[0], lambda X: X[0],
    ]  # fmt: skip
    model = nn.Sequential(nn.Embedding(11, 10), *(Made(lambda _, X, f=f: f(X)) for f in steps))
    call = recorded(model, torch.tensor([[1, 2, 3, 4, 7]]), tokens=[*"abcde"])
    assert [each.outputs[0].words for each in call.calls] == [tuple("abcde")] * (len(steps) + 1)


def test_words_that_a_reader_gives_to_features_go_on_with_a_view():
    model = Made(lambda self, x: self.step(x[..., None]), step=nn.Linear(1, 3))
    call = recorded(model, torch.rand(1, 5), tokens=[*"abcde"])
    assert call.inputs[0].words == call.calls[0].outputs[0].words == tuple("abcde")


def test_words_turn_round_with_the_tokens():
    turned = Made(lambda self, X: torch.flip(self.E(X), [1]), E=nn.Embedding(9, 8))
    back = Made(lambda self, X: self.turned(X).flip(dims=(1,)).flip(0), turned=turned)
    call = recorded(back, torch.tensor([[1, 2, 3, 4]]), tokens=SOURCE)
    assert call.calls[0].outputs[0].words == tuple(reversed(SOURCE))
    assert call.outputs[0].words == tuple(SOURCE)


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_states_have_no_words_though_their_layers_are_as_many(kind):
    model = nn.Sequential(nn.Embedding(9, 8), kind(8, 6, 2, bidirectional=True, batch_first=True))
    words, *of_states = [
        held.words for held in recorded(model, torch.ones(1, 4).long(), tokens=SOURCE).outputs
    ]
    assert words == tuple(SOURCE) and set(of_states) == {None}


def test_the_states_of_a_translator_have_no_words_either():
    model = EncoderDecoder(Seq2SeqEncoder(9, 6, 8, 2), Seq2SeqAttentionDecoder(9, 6, 8, 2))
    tokens = {"source": ["va", "!"], "target": ["<bos>", "go"]}
    encoder, _, decoder = recorded(model, *torch.ones(2, 1, 2).long(), tokens=tokens).calls
    words = {held.name: held.words for held in (*encoder.outputs, *decoder.inputs)}
    assert words["output[0]"] == words["state[0]"] == ("va", "!")
    assert words["output[1]"] is words["state[1]"] is None
    assert [held.words for held in decoder.outputs] == [("<bos>", "go"), None]


def test_a_part_that_is_called_twice_or_never_and_outputs_in_a_dictionary():
    def everything(self, X, *, scale):
        first = self.twice(X)
        second = self.twice(first * scale)
        return {"first": first, "rest": (self.changes(second), [X.sum()])}

    parts = {"twice": nn.Linear(3, 3), "never": nn.Linear(3, 3), "changes": nn.ReLU(inplace=True)}
    model, X = Made(everything, **parts), torch.tensor([[1.0, -2.0, 3.0], [-1.0, 2.0, -3.0]])
    run = record(model, (X,), {"scale": 2.0}, None)
    assert list(names(run)) == ["twice", "twice (call 2)", "changes"]
    assert [held.name for held in run.call.outputs] == [
        "output.first", "output.rest[0]", "output.rest[1][0]",
    ]  # fmt: skip
    changes = run.call.calls[2]
    # It changes its input in place: the record is of before.
    assert changes.inputs[0].numbers.min() < 0 == changes.outputs[0].numbers.min()


@pytest.mark.parametrize("batch_first", [True, False])
def test_pytorchs_own_transformer_opens_into_the_same_parts(batch_first):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(12, 3, 7, batch_first=batch_first)
    encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    options = {"custom_encoder": encoder, "batch_first": batch_first}
    model = nn.Transformer(12, 3, 1, 1, 7, **options)
    source, target = torch.randn(2, 5, 12), torch.randn(2, 4, 12)
    inputs = (source, target) if batch_first else (source.transpose(0, 1), target.transpose(0, 1))
    call = recorded(model.train(), *inputs)  # dropout is on, and off while it is recorded
    layer = call.calls[1].calls[0]
    assert [each.path.rpartition(".")[2] for each in layer.calls][:3] == [
        "self_attn", "norm1", "multihead_attn",
    ]  # fmt: skip
    attention = model.eval().encoder.layers[0].self_attn
    with torch.no_grad():
        _, weights = attention(*[inputs[0]] * 3, average_attn_weights=False)
    torch.testing.assert_close(call.calls[0].calls[0].calls[0].look.weights, weights[0])


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((len, (), None), TypeError, "opens an nn.Module, got len.*watch"),
        ((nn.ReLU(), (X,), ["one"]), ValueError, "1 words for input, whose shape"),
        ((nn.ReLU(), (X,), "ab"), TypeError, "list of str, got str"),
        ((nn.ReLU(), (X,), [1, 2]), TypeError, r"list of str, got \[1, 2\]"),
        ((nn.ReLU(), (X,), {"Y": ["a", "b"]}), ValueError, "'Y', the inputs are input"),
        (
            (
                DotProductAttention(0.0),
                (X[None, :, None],) * 3,
                {"queries": [*"ab"], "keys": [*"cd"]},
            ),
            ValueError,
            "queries and keys are one tensor",
        ),
        # The sentences of a layer that has time first would get the words of one of them.
        ((nn.ReLU(), (torch.ones(2, 2, 3),), ["a", "b"]), ValueError, "of 2 sentences: give one"),
    ],
)
def test_bad_arguments_are_said(arguments, error, words):
    model, inputs, tokens = arguments
    with pytest.raises(error, match=words):
        record(model, inputs, {}, tokens)


def test_a_recurrent_translator_shows_whom_its_words_look_at():
    model, inputs = translator("bahdanau")
    call = recorded(model, *inputs, tokens={"source": SOURCE, "target": TARGET})
    decoder = call.calls[-1]
    model.eval()(*inputs)
    torch.testing.assert_close(decoder.look.weights, model.decoder.attention_weights)
    assert (decoder.look.query_words, decoder.look.key_words) == (tuple(TARGET), tuple(SOURCE))


def test_a_layer_alone_is_a_model_too():
    call = recorded(DotProductAttention(0.0), *torch.randn(3, 2, 4, 5))
    assert call.look.weights.shape == (1, 4, 4)
    attention = MultiHeadAttention(6, 2, 0.0)
    call = recorded(attention, *torch.randn(3, 2, 4, 5))
    assert call.look.weights.shape == (2, 4, 4)
    # The heads stand where the part stood that computes them: behind the three projections.
    assert call.heads_at == 3 and [each.path for each in call.calls] == ["W_q", "W_k", "W_v", "W_o"]


def crosses(self, X, memory):
    self.attention_weights = (X @ memory.mT).softmax(-1)
    return self.attention_weights @ memory


def embeds(self, source, target):
    return self.cross(self.E(target), self.E(source))


@pytest.mark.parametrize("worded", ["source", "target"])
def test_words_of_one_sentence_are_not_guessed_at_another_as_long(worded):
    torch.manual_seed(0)
    models = [
        EncoderDecoder(Seq2SeqEncoder(7, 4, 6, 1), Seq2SeqAttentionDecoder(7, 4, 6, 1)),
        MODELS["transformer"](7, 7, 8),
        Made(embeds, E=nn.Embedding(7, 4), cross=Made(crosses)),
    ]
    words = ("je", "le", "vois")
    of_target, of_source = (words, None) if worded == "target" else (None, words)
    for model in models:
        source, target = torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5, 6]])
        name = {"source": "input 0", "target": "input 1"}[worded]
        own = isinstance(model, Made)
        call = recorded(model, source, target, tokens={name if own else worded: words})
        look = looks(call)[-1]
        # The last is a cross-attention: its queries are the target's, its keys the source's.
        assert (look.query_words, look.key_words) == (of_target, of_source)
        assert [call.outputs[0].words, call.calls[-1].outputs[0].words] == [of_target] * 2


def test_words_that_are_scored_are_those_of_the_models_own_output():
    """Hidden vectors of as many columns score no words."""
    says = nn.Sequential(nn.Embedding(5, 3), nn.ReLU(), nn.Linear(3, 3))
    call = recorded(says, torch.tensor([[1]]), tokens={"output": ["u", "v", "w"]})
    embedding, relu, linear = (each.outputs[0].best for each in call.calls)
    assert embedding is None and relu is None
    assert linear == call.outputs[0].best and len(linear[0]) == 3


def test_a_part_whose_output_is_changed_in_place_scores_none():
    changes = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True))
    torch.manual_seed(0)
    call = recorded(changes, torch.randn(1, 3), tokens={"output": ["u", "v", "w"]})
    assert call.outputs[0].numbers.min() == 0  # something is changed
    assert call.calls[0].outputs[0].best is None
    assert call.calls[1].outputs[0].best == call.outputs[0].best is not None


def test_probabilities_of_words_are_shown_as_they_are():
    call = recorded(nn.Identity(), torch.tensor([[0.75, 0.25]]), tokens={"output": ["yes", "no"]})
    assert call.outputs[0].best == [[("yes", 0.75), ("no", 0.25)]]


def test_a_look_into_lazy_layers_makes_no_twins():
    """What is made next draws other numbers: those it draws behind a call without a look."""

    def made(see):
        torch.manual_seed(0)
        a, b = MultiHeadAttention(4, 2, 0.0), MultiHeadAttention(4, 2, 0.0)
        X = torch.ones(1, 3, 4)
        see(a, X), see(b, X)
        return a.W_q.weight, b.W_q.weight

    one, other = made(lambda model, X: recorded(model, X, X, X))
    called, other_called = made(lambda model, X: model(X, X, X))
    assert not torch.equal(one, other)
    assert torch.equal(one, called) and torch.equal(other, other_called)
