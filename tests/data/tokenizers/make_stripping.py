"""Makes what Hugging Face's `tokenizers` encodes where added tokens take white space, or stand as words alone.

usage: python3 make_stripping.py [COUNT] [OUT]          (needs `pip install tokenizers`)

COUNT texts (12) for each tokenizer beside this script, in random order of words, blanks of all kinds and tokens.
"""

import json
import pathlib
import random
import sys

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

FOLDER = pathlib.Path(__file__).parent
BASES = ["gpt2_style", "qwen2_style", "llama3_style", "llama2_style", "llama2_normalized_style",
         "metaspace_first_style", "metaspace_always_style"]
PARTS = [" ", " ", "  ", "\n", " \n", "\t", "\r\n", "\u00a0", "\u2028", "\u3000", "\u0085", "\u200b", "\u180e", "a", "the",
         "Quick", "_", "-", ".", "12", "\u0663", "\u00e9", "\u0301", "\u24b6", "\u2167", "\u00b2", "\u200d", "\u4e2d",
         "\U0001f6a2", "\u2581", "[L", "<none>"]
# Content, lstrip, rstrip, single_word, normalized, special.
TOKENS = [("[L]", 1, 0, 0, 0, 1), ("[R]", 0, 1, 0, 0, 1), ("[B]", 1, 1, 0, 0, 1), ("[W]", 0, 0, 1, 0, 1),
          ("[LW]", 1, 0, 1, 0, 1), ("[RW]", 0, 1, 1, 0, 1), ("[W][R]", 0, 0, 1, 0, 1),
          ("NL", 1, 0, 0, 1, 0), ("NR", 0, 1, 0, 1, 0), ("NW", 1, 1, 1, 1, 0)]


def added(first, normalized):
    return [{"id": first + i, "content": content, "lstrip": bool(left), "rstrip": bool(right), "single_word": bool(word),
             "normalized": bool(norm and normalized), "special": bool(special or not normalized)}
            for i, (content, left, right, word, norm, special) in enumerate(TOKENS)]


def text(draw):
    parts = PARTS + [token[0] for token in TOKENS] * 3
    return "".join(draw.choice(parts) for _ in range(draw.randrange(1, 16)))


def cases(tokenizer, draw, count):
    made = [text(draw) for _ in range(count)]
    return [[one, tokenizer.encode(one, add_special_tokens=False).ids] for one in made]


def of_file(base, draw, count):
    file = json.loads((FOLDER / (base + ".json")).read_text())
    first = 1 + max([*file["model"]["vocab"].values(), *(token["id"] for token in file["added_tokens"])])
    tokens = added(first, True)
    file["added_tokens"] += tokens
    return {"base": base + ".json", "added": tokens, "cases": cases(Tokenizer.from_str(json.dumps(file)), draw, count)}


def of_word_pieces(draw, count):
    vocab = (FOLDER / "wordpiece_vocab.txt").read_text().split("\n")[:-1]
    tokenizer = Tokenizer(models.WordPiece({token: i for i, token in enumerate(vocab)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = tokens = added(len(vocab), False)
    return {"base": "wordpiece_vocab.txt", "added": tokens,
            "cases": cases(Tokenizer.from_str(json.dumps(file)), draw, count)}


count = int(sys.argv[1]) if len(sys.argv) > 1 else 12
out = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER / "stripping.expected.json"
draw = random.Random(7)
made = [of_file(base, draw, count) for base in BASES] + [of_word_pieces(draw, count)]
out.write_text("[" + ",\n".join(
    '{"base": %s, "added": %s, "cases": [\n%s]}' % (
        json.dumps(one["base"]), json.dumps(one["added"], separators=(",", ":")),
        ",\n".join(json.dumps(case, separators=(",", ":")) for case in one["cases"])) for one in made) + "]\n")
