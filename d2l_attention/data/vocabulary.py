"""Tokens to numbers and back."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import overload

import torch

from d2l_attention.data.corpus import check_tokenized
from d2l_attention.system.files import write_whole

PAD, BOS, EOS, UNK = "<pad>", "<bos>", "<eos>", "<unk>"
SPECIAL = [PAD, BOS, EOS, UNK]


class Vocab:
    """The tokens of some sentences, numbered: special ones first, then the most frequent first.

    As in D2L, ``vocab["ami"]`` is a number, ``vocab[["un", "ami"]]`` a list of numbers, and what
    is not in the vocabulary gets the number of ``<unk>``. The special tokens are always there:
    ``<pad>`` is 0, ``<bos>`` 1, ``<eos>`` 2, ``<unk>`` 3; text that spells one is not counted.

    ``min_freq``: a token that occurs less often is left out.

    Errors: ``TypeError`` where a sentence is a string instead of a sequence of tokens.
    """

    def __init__(self, sentences: Iterable[Sequence[str]], min_freq: int = 1):
        counts: Counter[str] = Counter()
        for sentence in sentences:
            check_tokenized("sentences", [sentence])
            counts.update(sentence)
        tokens = [token for token in counts if counts[token] >= min_freq and token not in SPECIAL]
        # Equally frequent tokens in alphabetical order: the numbers depend on nothing else.
        self._number(SPECIAL + sorted(tokens, key=lambda token: (-counts[token], token)))

    def _number(self, tokens: list[str]) -> None:
        self.idx_to_token = tokens
        self.token_to_idx = {token: i for i, token in enumerate(tokens)}

    def __len__(self) -> int:
        return len(self.idx_to_token)

    def __contains__(self, token: str) -> bool:
        return token in self.token_to_idx

    @overload
    def __getitem__(self, tokens: str) -> int: ...
    @overload
    def __getitem__(self, tokens: Sequence[str]) -> list[int]: ...
    def __getitem__(self, tokens):
        if isinstance(tokens, str):
            return self.token_to_idx.get(tokens, self.token_to_idx[UNK])
        return [self[token] for token in tokens]

    @overload
    def to_tokens(self, indices: int) -> str: ...
    @overload
    def to_tokens(self, indices: Iterable[int] | torch.Tensor) -> list[str]: ...
    def to_tokens(self, indices):
        """The token of a number, or the tokens of a sequence of numbers, special ones included.

        Errors: ``IndexError`` for a number that no token has, ``TypeError`` for what is no number.
        """
        if hasattr(indices, "tolist"):  # tensors, and NumPy's arrays and numbers
            indices = indices.tolist()
        if isinstance(indices, str) or not isinstance(indices, (int, Iterable)):
            raise TypeError(f"indices must be whole numbers, got {indices!r}")
        if not isinstance(indices, int):
            return [self.to_tokens(index) for index in indices]
        if not 0 <= indices < len(self):
            raise IndexError(f"index {indices} is outside a vocabulary of {len(self)} tokens")
        return self.idx_to_token[indices]

    def unknown(self, tokens: Iterable[str]) -> list[str]:
        """Those tokens that are not in the vocabulary, each once, in their order.

        Errors: ``TypeError`` for a string instead of a sequence of tokens.
        """
        check_tokenized("tokens", [tokens])
        return list(dict.fromkeys(token for token in tokens if token not in self))

    def save(self, path: str | Path) -> None:
        """Write the tokens as JSON, all or nothing: who is interrupted finds the old file."""
        text = json.dumps({"tokens": self.idx_to_token}, ensure_ascii=False, indent=0)
        # Tokenizers that cut between bytes make halves of characters, which UTF-8 has no place for.
        write_whole(path, text.encode("utf-8", "surrogatepass"))

    @classmethod
    def load(cls, path: str | Path) -> "Vocab":
        """The vocabulary that ``save`` wrote.

        Errors: ``ValueError`` where the file is damaged or something else.
        """
        try:
            text = Path(path).read_text(encoding="utf-8", errors="surrogatepass")
            tokens = json.loads(text)["tokens"]
            valid = (
                tokens[: len(SPECIAL)] == SPECIAL
                and all(isinstance(token, str) for token in tokens)
                and len(set(tokens)) == len(tokens)
            )
        except (ValueError, KeyError, TypeError):
            valid = False
        if not valid:
            raise ValueError(f"{path} holds no vocabulary: it is damaged or another kind of file")
        vocab = cls([])
        vocab._number(tokens)
        return vocab
