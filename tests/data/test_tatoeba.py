"""The reader of Tatoeba files, on small files of its own, and ``load``."""

import io
import zipfile

import pytest
from d2l_oracle import load_d2l

from d2l_attention.data import grammar, load, tatoeba
from d2l_attention.data.tatoeba import normalize, read, splits, tokenize

TWO = "Go.\tVa !\nRun!\tCours\u202f!\nRun!\tCourez\u00a0!\nHi.\tSalut !\n"
CREDIT = "CC-BY 2.0 (France) Attribution: tatoeba.org #2877272 (CM) & #1158250 (Wittydev)"
THREE = f"Go.\tVa !\t{CREDIT}\nGo.\tMarche.\tCC-BY 2.0 (France) Attribution: someone else\n"


def write(folder, text, name="fra.txt"):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def zipped(**members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "/").replace("_txt", ".txt"), text)
    return content.getvalue()


def shown(pairs):
    return [(" ".join(p.source), *(" ".join(t) for t in p.targets)) for p in pairs]


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Cours\u202f!", "Cours !"),
        ("Cours\u00a0!", "Cours !"),
        ("3\u2009000 km", "3 000 km"),
        ("l\u2019été", "l'été"),
        ("zéro\u200b largeur", "zéro largeur"),
        ("aujour\u00add'hui", "aujourd'hui"),
        ("e\u0301te\u0301", "été"),
        ("e\u00ad\u0301te\u0301", "été"),
        ("  a \u202f\u00a0 b ", "a b"),
        ("\u200b", ""),
    ],
)
def test_normalize(text, normal):
    assert normalize(text) == normal
    assert normalize(normal) == normal


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Va !", "va !"),
        ("Va\u202f!", "va !"),
        ("Wait... What?!", "wait . . . what ? !"),
        ("J'ai 3,5 euros.", "j'ai 3 , 5 euros ."),
        ("Élève-toi, l\u2019Œuf", "élève-toi , l'œuf"),
        ("", ""),
    ],
)
def test_tokenize(text, tokens):
    assert tokenize(text) == tokens.split()


def test_two_columns_grouped_by_source(tmp_path):
    pairs = read(write(tmp_path, TWO))
    assert shown(pairs) == [
        ("go .", "va !"),
        ("run !", "cours !", "courez !"),
        ("hi .", "salut !"),
    ]
    assert pairs[1].target == ("cours", "!")
    assert pairs[1].attributions == ("", "")
    assert pairs[1].possible == ()


def test_three_columns_keep_the_attribution_of_every_target(tmp_path):
    (pair,) = read(write(tmp_path, THREE))
    assert shown([pair]) == [("go .", "va !", "marche .")]
    assert pair.attributions == (CREDIT, "CC-BY 2.0 (France) Attribution: someone else")


def test_d2l_reads_three_columns_as_nothing():
    """The mistake of d2l 1.0.3 that this reader does not repeat: no error, and no sentence."""
    book = load_d2l().MTFraEng
    assert book._tokenize(None, THREE) == ([], [])
    text = book._preprocess(None, "Go on, Tom!\tVa, Tom\u202f!\nWho?\tQui ?\n")
    assert book._tokenize(None, text) == (
        [[*tokenize("Go on, Tom!"), "<eos>"], [*tokenize("Who?"), "<eos>"]],
        [[*tokenize("Va, Tom\u202f!"), "<eos>"], [*tokenize("Qui ?"), "<eos>"]],
    )


def test_more_columns_and_a_mixture(tmp_path):
    pairs = read(write(tmp_path, f"Go.\tVa !\t{CREDIT}\tmore\t\nHi.\tSalut !\n"))
    assert shown(pairs) == [("go .", "va !"), ("hi .", "salut !")]
    assert [pair.attributions for pair in pairs] == [(CREDIT,), ("",)]


def test_what_looks_the_same_is_the_same(tmp_path):
    text = "Go.\tVa\u202f!\n" + "GO.\tVa !\nGo .\tVa\u00a0!\nGo.\tve\u0301 !\n"
    assert shown(read(write(tmp_path, text))) == [("go .", "va !", "vé !")]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff", "\n\n"])
def test_line_ends_byte_order_marks_and_empty_lines(tmp_path, newline, start):
    path = write(tmp_path, (start + TWO).replace("\n", newline))
    assert [pair.source[0] for pair in read(path)] == ["go", "run", "hi"]


def test_a_line_separator_inside_a_sentence_ends_no_line(tmp_path):
    assert len(read(write(tmp_path, "Go.\tVa\u2028maintenant !\n"))) == 1


def test_zip(tmp_path):
    content = zipped(
        **{"fra-eng__fra_txt": TWO, "fra-eng___about_txt": "about", "__MACOSX__._fra_txt": "\0"}
    )
    pairs = read(write(tmp_path, content, "any.name"))
    assert shown(pairs) == shown(read(write(tmp_path, TWO)))


def test_a_zip_without_one_text_file(tmp_path):
    with pytest.raises(ValueError, match=r"one text file, got \[\]"):
        read(write(tmp_path, zipped(readme="x")))
    with pytest.raises(ValueError, match=r"one text file, got \['a.txt', 'b.txt'\]"):
        read(write(tmp_path, zipped(a_txt=TWO, b_txt=TWO)))


def test_names_of_columns_are_no_pair(tmp_path):
    headed = read(write(tmp_path, f"Eng\tHin\tOth\n{TWO}"))
    assert headed == read(write(tmp_path, TWO))
    # One word above what is no sentence either may be a pair, and a question is one.
    assert len(read(write(tmp_path, "tea\tthé\nmilk\tlait\n"))) == 2
    assert len(read(write(tmp_path, "Why?\tPourquoi ?\nGo.\tVa !\n"))) == 2
    assert shown(read(write(tmp_path, "Eng\tFra\n\nGo.\tVa !\n"))) == [("go .", "va !")]


def test_a_zip_that_unpacks_to_too_much_is_not_unpacked(tmp_path, monkeypatch):
    path = write(tmp_path, zipped(fra_txt="Go.\tVa !\n" * 1000))
    monkeypatch.setattr(tatoeba, "MOST_BYTES", 8_999)
    monkeypatch.setattr(zipfile.ZipFile, "read", None)  # would raise a TypeError
    with pytest.raises(
        ValueError, match=r"fra.txt in .* unpacks to 9,000 bytes and is not read: 8,999"
    ):
        read(path)


def test_damaged_files(tmp_path):
    whole = zipped(fra_txt=TWO * 200)
    with pytest.raises(ValueError, match=r"fra\.txt is neither UTF-8 text nor a whole zip file"):
        read(write(tmp_path, whole[:-40]))
    middle = len(whole) // 3
    with pytest.raises(ValueError, match=r"fra\.txt is a damaged zip file"):
        read(write(tmp_path, whole[:middle] + b"\0" * 9 + whole[middle + 9 :]))
    with pytest.raises(ValueError, match="neither UTF-8 text"):
        read(write(tmp_path, "Go.\tVas-y là".encode("latin-1")))


@pytest.mark.parametrize(
    "text", ["", "\n \n", "Go. Va !\nHi. Salut !\n", "\t\n\tVa\n", "Go.\t\u200b"]
)
def test_nothing_that_parses_raises(tmp_path, text):
    with pytest.raises(ValueError, match="holds no sentence pairs: expected 'English<tab>French'"):
        read(write(tmp_path, text))


def test_one_line_of_a_hundred_may_be_broken(tmp_path):
    lines = ["no tab\n", "\tno source\n", "Go.\tVa !\n" * 98]
    with pytest.raises(ValueError, match=r"2 of 100 lines of .*fra.* line 2: 'no tab'; at most 1%"):
        read(write(tmp_path, "\n" + "".join(lines)))
    lines[1] = "Hi.\tSalut !\n"
    with pytest.warns(UserWarning, match=r"1 of 100 lines .* left out"):
        assert len(read(write(tmp_path, "".join(lines)))) == 2


def test_splits_by_source(tmp_path):
    lines = [f"Number {i}.\tNuméro {i}.\nNumber {i}.\tLe {i}.\n" for i in range(60)]
    course = splits(write(tmp_path, "".join(lines)), seed=3)
    assert [len(split) for split in (course.train, course.valid, course.test)] == [54, 3, 3]
    sources = {p.source for split in (course.train, course.valid, course.test) for p in split}
    assert len(sources) == 60
    assert all(len(pair.targets) == 2 for pair in course.train)
    assert course == splits(tmp_path / "fra.txt", seed=3) != splits(tmp_path / "fra.txt", seed=4)
    assert "CC BY 2.0" in course.origin and "fra.txt" in course.origin
    with pytest.raises(ValueError, match="three source sentences or more, got 2"):
        splits(write(tmp_path, "a\tb\nc\td\n"))


def test_load(tmp_path, capsys):
    path = write(tmp_path, TWO)
    assert load(path) == load(str(path)) == splits(path)
    assert capsys.readouterr().out == ""


def test_without_a_file_the_built_in_corpus_is_used_and_says_so(capsys, monkeypatch):
    monkeypatch.setattr(grammar.splits, "__kwdefaults__", {"train": 7, "valid": 2, "test": 3})
    assert load() == load("grammar") == grammar.splits()
    said = capsys.readouterr().out
    assert "No file" in said and "built-in English-French grammar" in said
    assert len(said.splitlines()) == 1


def test_a_file_that_is_not_there_is_never_replaced(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*typo\.zip: .*load\(\)"):
        load(tmp_path / "typo.zip")
