"""Makes wordpiece_vocab.txt and what transformers' BertTokenizer makes with it: wordpiece.expected.json, the ids of
texts, and wordpiece_pairs.json, texts and pairs of texts that BertTokenizerFast pads and truncates.

usage: python3 make_wordpiece.py                (needs `pip install "transformers<5" unicodedata2==15.0.0`)
       python3 make_wordpiece.py --large FOLDER TEXTS
           a vocabulary of every assigned character and so many texts, for comparisons by hand: FOLDER/NAME/ holds the
           tokenizer, FOLDER/NAME.ids a line of ids for each line of FOLDER/texts.jsonl

BertTokenizer takes Unicode from Python; here it is given version 15.0, which utf8proc has.
"""

import json
import pathlib
import random
import sys

import unicodedata2

sys.modules["unicodedata"] = unicodedata2  # before transformers imports it

from transformers import BertTokenizer, BertTokenizerFast  # noqa: E402

FOLDER = pathlib.Path(__file__).parent
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

# The options of tokenizer_config.json; the test writes the same files.
OPTIONS = {
    "uncased": {"do_lower_case": True},
    "cased": {"do_lower_case": False},
    "accents": {"do_lower_case": True, "strip_accents": False},
    "stripped": {"do_lower_case": False, "strip_accents": True},
    "unsplit": {"do_lower_case": True, "tokenize_chinese_chars": False},
}

WORDS = """the load line ship harbour captain un ##aff ##able ##ing ##s ##ed load ##ing 19 ##45 ##7 caf ##é ##e naïve
naive ##ive straße ##ße strasse ##ss εδώ ##λοίο πλ море ##ор ##е мор 船 は ##港 港 貨物 貨 物 한국 ##국 ᄒ ##ᅡ ##ᆫ हि ##न्द ##ी
ไทย ##ไทย السف ##ينة ω ω ##ς ##σ i ##̇ ǆ ##ǆ ﬁ ##ﬁ x ##x 1 ##1 2 ##2 mask cls [ ] a ##a b ##b c ##c ’ “ ” … — – ¿ ¡ « »
! " # $ % & ' ( ) * + , - . / : ; < = > ? @ \\ ^ _ ` { | } ~ 。 、 ・ ॥ ፡ ⁂ ⸮ 〽 ＃ € £ © ½ ² ⅷ Ⅷ ª º ʰ 𝒜 𝔸 ##𝔸 😀 🚢 ##🚢""".split()

# One character or two of each block where something special happens.
EDGES = ("\u0000\u0001\t\n\r\u000b\u000c\u001b\u001c\u001f\u007f\u0085\u00a0\u00ad\u0300\u0301\u0345\u0378\u0600\u061c"
         "\u1680\u180e\u2000\u200b\u200c\u200d\u200e\u2028\u2029\u202e\u202f\u205f\u2060\u3000\ufeff\ufffd\ufffe\uffff"
         "\ue000\U000e0001\U000e0100\U000f0000\U0010ffff\U0001fae8\U0001f1e9\U0001f3fd\ufe0f\u20e3"
         "\u0130\u0131\u017f\u212a\u212b\u2126\u1e9e\u03a3\u03c2\u01c5\u1f88\u1fbe\u0149\u0587\ufb01\ufb2c\u0958\u0344\u0f73"
         "\u4e00\u9fff\u3400\u4dbf\U00020000\U0002a6df\U0002a700\U0002ebf0\U00031350\uf900\ufaff\U0002f800\U0002fa1d\u3007\u31a0"
         "\uac00\u1100\u1161\u11a8\uac01\u0939\u094d\u0e01\u0e33\u0e34\u3042\u304b\u3099\uff76\uff9e\u05d0\u05b8\u0627\u0651"
         "$+<=>^`|~\u20ac\u2212\u00d7\u00b4\u02c6\u0640\u066a\u2016\u301c\ufe4f\uff3f\u0f3a\u2329\u27e6")

TEXTS = ["", " ", "[CLS]", "x[MASK]y [SEP]", "[mask] [Mask] [MA\u200bSK] [MASK\u0301] [ MASK ] [[MASK]] [CLS[CLS]]",
         "Un\u0301affable unaffable Unaffing affables", "a" * 100, "a" * 101, "b" * 100 + "\u0301" * 30 + " c",
         "\u00c5\u0323 A\u030a\u0323 caf\u00e9 CAFE\u0301 na\u00efve", "\u1100\u1161\u11a8 \uac01 \ud55c\uad6d",
         "##ing ##s a##b", "1945! $1.50 (x) a-b_c e.g. don't", "\u039f\u03a3 \u03a3\u03c2 STRASSE stra\u00dfe \u1e9e",
         "\u8ca8\u7269\u306f\u6e2f", "\u0130 I\u0307 i\u0307", "x\u2028y\u2029z\u0085w\u000bv"]


def character(rng, wide):
    """Mostly what vocabularies have; now and then any code point, or one of EDGES."""
    kind = rng.random()
    if kind < 0.45:
        return rng.choice(rng.choice(WORDS).removeprefix("##"))
    if kind < 0.6:
        return " "
    if kind < 0.8:
        return rng.choice(EDGES)
    if kind < 0.9 and not wide:
        return chr(rng.randrange(0x20, 0x250))
    while True:
        code = rng.randrange(rng.choice([0x800, 0x3100, 0x11000, 0x20000, 0x110000]))
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def texts(count, wide=False):
    rng = random.Random(1912)
    made = list(TEXTS)
    while len(made) < count:
        text = "".join(character(rng, wide) for _ in range(rng.randrange(1, 40)))
        for _ in range(rng.choice([0, 0, 1, 2])):
            word = rng.choice(WORDS).removeprefix("##") + rng.choice(["", "ing", "S", "\u0301"])
            token = rng.choice([word, word.upper(), rng.choice(SPECIAL), rng.choice(SPECIAL).lower()])
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice(["", " "]) + token + rng.choice(["", " "]) + text[at:]
        made.append(text)
    return made


def save(folder, vocab, options):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("".join(token + "\n" for token in vocab))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"} | options))


def encode(folder, vocab, options, text):
    save(folder, vocab, options)
    tokenizer = BertTokenizer.from_pretrained(folder)
    return [tokenizer.convert_tokens_to_ids(tokenizer.tokenize(one)) for one in text]


def small():
    import tempfile
    letters = sorted({c for word in WORDS for c in word if unicodedata2.category(c)[0] in "LMN"} |
                     {c for c in EDGES if unicodedata2.category(c)[0] in "LMS"} | {chr(c) for c in range(0x61, 0x7b)} |
                     {chr(c) for c in range(0x41, 0x5b)} | {chr(c) for c in range(0xc0, 0x180)})
    vocab = list(dict.fromkeys(SPECIAL + WORDS + [form for c in letters for form in (c, "##" + c)]))
    text = texts(250)
    with tempfile.TemporaryDirectory() as folder:
        ids = {name: encode(pathlib.Path(folder) / name, vocab, options, text) for name, options in OPTIONS.items()}
    expected = [{"text": one, "ids": {name: ids[name][i] for name in ids}} for i, one in enumerate(text)]
    (FOLDER / "wordpiece_vocab.txt").write_text("".join(token + "\n" for token in vocab))
    (FOLDER / "wordpiece.expected.json").write_text(
        "[" + ",\n".join(json.dumps(one, ensure_ascii=True, separators=(",", ":")) for one in expected) + "]\n")
    with tempfile.TemporaryDirectory() as folder:
        pairs(pathlib.Path(folder), vocab)


def pairs(folder, vocab):
    save(folder, vocab, OPTIONS["uncased"])
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    made = []
    for first in (0, 1, 4, 7, 8, 9, 20):
        for second in (None, 0, 1, 4, 7, 8, 9, 20):
            for length in (16, 17):
                text, pair = "a " * first, None if second is None else "b " * second
                # As a batch, in which an empty second text is one, too.
                rows = tokenizer([text], None if pair is None else [pair], truncation="longest_first",
                                 padding="max_length", max_length=length)
                made.append({"text": text, "text_pair": pair} | {key: row[0] for key, row in rows.items()})
    (FOLDER / "wordpiece_pairs.json").write_text(
        "[" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in made) + "]\n")


def large(folder, count):
    vocab = list(dict.fromkeys(SPECIAL + WORDS + [
        form for code in range(0x110000) if unicodedata2.category(chr(code))[0] not in "CZ" for form in (chr(code), "##" + chr(code))]))
    text = texts(count, wide=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "texts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in text))
    for name, options in OPTIONS.items():
        with open(folder / (name + ".ids"), "w") as file:
            for ids in encode(folder / name, vocab, options, text):
                print(*ids, file=file)


if len(sys.argv) == 4 and sys.argv[1] == "--large":
    large(pathlib.Path(sys.argv[2]), int(sys.argv[3]))
else:
    small()
