"""Files of sentence pairs from Tatoeba, as www.manythings.org/anki hands them out.

A line is an English sentence, a tab and its translation, in newer files another tab and the
attribution: who wrote the two, under which licence. Many sentences come with several
translations, on lines of their own.
"""

import random
import re
import unicodedata
import warnings
import zipfile
import zlib
from pathlib import Path

from d2l_attention.data.corpus import Corpus, Pair

MOST_BROKEN = 0.01  # of the lines: a file with more is something else
MOST_BYTES = 200_000_000  # of text: what unpacks to more is no file of sentence pairs

# Narrow, no-break and thin spaces become plain ones, the curly apostrophe a straight one;
# zero-width spaces and soft hyphens, which nobody sees, go.
CHARACTERS = str.maketrans(
    {"\u202f": " ", "\u00a0": " ", "\u2009": " ", "\u2019": "'", "\u200b": "", "\u00ad": ""}
)


def normalize(text: str) -> str:
    """One way to write what looks the same: composed accents (NFC), plain spaces, apostrophes."""
    return " ".join(unicodedata.normalize("NFC", text.translate(CHARACTERS)).split())


def tokenize(text: str) -> list[str]:
    """Lower-case words as in D2L, section 10.5: ``, . ! ?`` are tokens of their own."""
    return re.findall(r"[,.!?]|[^\s,.!?]+", normalize(text).lower())


def read(path: str | Path) -> list[Pair]:
    """The sentence pairs of a text file, or of the one text file in a zip; one pair per source.

    Lines whose source is the same in tokens make one pair with several targets. Empty lines do
    not count, nor does a first line that names the columns ('Eng', 'Fra'). A line without two
    sentences is broken: it is left out, and a warning says so.

    Errors: ``FileNotFoundError``; ``ValueError`` where the file is damaged or no UTF-8 text, where
    nothing in it is a pair, where more than a hundredth of its lines is broken, or where a zip
    holds more than 200 MB of text.
    """
    text = read_text(Path(path))
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) > 1 and names_columns(lines[0][1], lines[1][1]):
        del lines[0]
    grouped: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
    broken = []
    for number, line in lines:
        english, french, attribution, *_ = [*line.split("\t"), "", ""]
        source, target = tuple(tokenize(english)), tuple(tokenize(french))
        if source and target:
            grouped.setdefault(source, {}).setdefault(target, normalize(attribution))
        else:
            broken.append(f"line {number}: {line[:60]!r}")
    if not grouped:
        raise ValueError(
            f"{path} holds no sentence pairs: expected 'English<tab>French' on each line, "
            f"got {broken[0] if broken else 'no lines'}"
        )
    if broken:
        complaint = f"{len(broken)} of {len(lines)} lines of {path} hold no pair, first {broken[0]}"
        if len(broken) > MOST_BROKEN * len(lines):
            raise ValueError(f"{complaint}; at most {MOST_BROKEN:.0%} may be broken")
        warnings.warn(f"{complaint}; left out", stacklevel=2)
    return [
        Pair(source, tuple(targets), attributions=tuple(targets.values()))
        for source, targets in grouped.items()
    ]


def names_columns(first: str, second: str) -> bool:
    """Whether the first line is no pair: a bare word above a sentence with its full stop."""
    name, sentence = (tokenize(line.split("\t")[0]) for line in (first, second))
    return len(name) == 1 and sentence[-1:] in (["."], ["!"], ["?"])


def read_text(path: Path) -> str:
    """What the file says, or the one text file in it where it is a zip."""
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}: without one, load() takes the built-in corpus")
    content = read_zip(path) if zipfile.is_zipfile(path) else path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is neither UTF-8 text nor a whole zip file: {error}") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_zip(path: Path) -> bytes:
    """The only member that ends in .txt; names that start with _ or . are about the file."""
    try:
        with zipfile.ZipFile(path) as archive:
            texts = [
                name
                for name in archive.namelist()
                if name.endswith(".txt") and not name.split("/")[-1].startswith(("_", "."))
            ]
            if len(texts) != 1:
                raise ValueError(f"{path} must hold one text file, got {texts}")
            size = archive.getinfo(texts[0]).file_size
            if size > MOST_BYTES:
                raise ValueError(
                    f"{texts[0]} in {path} unpacks to {size:,} bytes and is not read: "
                    f"{MOST_BYTES:,} are more than any file of sentence pairs has"
                )
            return archive.read(texts[0])
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ValueError(f"{path} is a damaged zip file: {error}") from error


def splits(path: str | Path, seed: int = 0) -> Corpus:
    """The file at ``path``, split by source sentence.

    Validation and test get a twentieth of the sources each, at least one, at most 1,000.

    Errors: those of ``read``; ``ValueError`` below three source sentences.
    """
    path = Path(path)
    pairs = read(path)
    if len(pairs) < 3:
        raise ValueError(f"{path} must hold three source sentences or more, got {len(pairs)}")
    random.Random(seed).shuffle(pairs)
    held_out = min(1000, max(1, len(pairs) // 20))
    return Corpus(
        origin=f"{path.name}: tatoeba.org, through www.manythings.org/anki, CC BY 2.0 (France)",
        train=tuple(pairs[2 * held_out :]),
        valid=tuple(pairs[:held_out]),
        test=tuple(pairs[held_out : 2 * held_out]),
    )
