"""Makes the tokenizer files beside this script and what Hugging Face's `tokenizers` encodes with them.

usage: python3 make_fixtures.py [GPT2_ENCODER GPT2_MERGES]       (needs `pip install tokenizers`)

The tokenizers are trained on a few lines written here; their structure is that of GPT-2's, Llama 3's, Qwen2's
and Llama 2's files (from before transformers 5, and as 5 writes them). With GPT-2's own files, their encodings of the same strings are written as well.
"""

import json
import pathlib
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

FOLDER = pathlib.Path(__file__).parent

CORPUS = """
The load line is painted on the hull where every harbour master can see it. A captain who's careless
loads past it; a careful one doesn't. They'll say the ship has sailed a hundred times, and it's true:
1,000 tonnes of grain in 1876, 12,500 tonnes of coal in 1890, 365 days a year, 24 hours a day.
We've measured the draught forward and aft, I'm sure you'd have done the same, and we're content.
WE'VE MEASURED IT TWICE, THEY'LL SEE. Who'd argue? Nobody's ever argued with the sea for long!

    def draught(load, area):
        # metres of salt water
        return load / (1.025 * area)

Die Ladelinie liegt über dem Wasser, größer als je zuvor. L'été dernier, la mer était calme; où est-elle?
El barco llegó mañana y el niño señaló la línea. Корабль идёт по морю, и море спокойно. Το πλοίο είναι εδώ.
船は港に着いた。荷物を積む線を越えてはならない。货船不得超过载重线。배가 항구에 도착했다.
""" * 3

TEXTS = [
    "",
    "Hello, world!",
    "The captain's load line; they'll see, I'm sure, we've measured: it's 1,234,567 tonnes.",
    "WE'VE THEY'LL It'S don'T",
    "'\u017f and a long s'\u017f",
    "12 123 1234 12345 \u0661\u0662\u0663\u0664 \u00bd \u2167 x\u00b2",
    "  two  spaces   three    four ",
    "tabs\t\tand\nnewlines\n\n\nand \n mixed \r\n\r\n  \r\n end\n",
    " \n",
    "\n \n\n  x",
    "\u00a0nbsp\u00a0\u00a0x \u3000ideographic \u2028line \u0085next \u180emvs \u200bzwsp \ufeffbom",
    "na\u00efve caf\u00e9 vs cafe\u0301 and A\u030a \u212b \u1e9b\u0323",
    "\uac00\ub098\ub2e4 \u1100\u1161\u11a8 \u0958 \u2126 \ufb01",
    "\u8ca8\u7269\u3092\u7a4d\u3080\u7dda\u3002 \u8d27\u8239 \ubc30\uac00",
    "\U0001f6a2\U0001f468\u200d\U0001f469\u200d\U0001f467\U0001f3fd \u2764\ufe0f \U0001f1e9\U0001f1ea",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u0e44\u0e17\u0e22 \u0627\u0644\u0633\u0641\u064a\u0646\u0629",
    "e\u0301\u0302\u0323\u0327 \u0301start a\u0327\u0323\u0301",
    "<|endoftext|>a<|endoftext|><|endoftext|> b <|endoftext| >",
    "<|im_start|>user\nhi<|im_end|>\n<|begin_of_text|>x<|eot_id|><|eot_id",
    "x<word>y<words>z <word>\u0338 tail",
    "    def f(x):\n        return x**2  # !!!\n\n\n",
    "a" * 300 + " " + "ab" * 100 + " " * 200 + "!" * 100 + "\n" * 50,
    "\u0000\u0001\u007f control \u0000",
    "https://example.org/a?b=c&d=%20#frag ___ --- ... \u2026 \u201cquoted\u201d \u2018s",
    "I\u0130\u0131 \u1e9e \u00df STRASSE '\u212a 'S 'LL \u2019s",
    " one space before", "one space after ", "\u2581written \u2581out\u2581", " ", "  ", "\u2581",
    "<s>begins</s> and ends<s> <unk></s>", "</s>", "<s> <s>  x", "<0x41><0x0A> written out", "\n", "\r\n\t",
    "<s", "a<s>\u2581b </s>\u2581\u2581 c", "\u00e9\u00e9\n\n  \n", "\ud7ff\ue000\uffff\U00010000\U0010ffff",
]

# Ids that decode to bytes: valid, cut off, in the wrong order; and spaces at the start of a text.
SEQUENCES = ["<0xE2><0x82><0xAC>", "<0xE2><0x82>", "\u2581the<0xE2><0x82><0x41>\u2581a", "<0x41><0x42>", "<0xFF>",
             "<0x20>a", "\u2581\u2581", "\u2581\u2581\u2581the", "<s>\u2581the</s>", "<0xC3><s><0xA9>", "<0xC3><0xA9><0xC3>"]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def train(pre_tokenizer, vocab_size, normalizer=None, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(
        [CORPUS], trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False,
                                      initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    return tokenizer


def split(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])


def special(*names):
    return [AddedToken(name, special=True, normalized=False) for name in names]


def llama2():
    """BPE of characters: words begin with \u2581, and what is rare is written in bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.train_from_iterator(
        [line for line in CORPUS.splitlines() if line],
        trainers.BpeTrainer(vocab_size=700, show_progress=False, limit_alphabet=90,
                            special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]))
    file = json.loads(tokenizer.to_str())
    model = file["model"]
    # The words lack the runs of spaces that Llama 2's vocabulary has.
    for left, right in [("\u2581", "\u2581"), ("\u2581" * 2, "\u2581" * 2), ("\u2581" * 2, "\u2581")]:
        model["vocab"][left + right] = len(model["vocab"])
        model["merges"].append([left, right])
    model |= {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}
    file["added_tokens"] = [token for token in file["added_tokens"] if not token["content"].startswith("<0x")]
    file["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return file


def save_llama2(name, file, pre_tokenizer, normalizer, normalized=False):
    file = file | {"pre_tokenizer": pre_tokenizer, "normalizer": normalizer}
    for token in file["added_tokens"]:
        token["normalized"] = normalized
    tokenizer = Tokenizer.from_str(json.dumps(file))
    write(name + ".json", file)
    decoded = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]
    vocab = sorted(tokenizer.get_vocab(), key=len, reverse=True)
    for text in SEQUENCES:
        ids = []
        while text:
            token = next((token for token in vocab if text.startswith(token)), None) or sys.exit(f"no token for {text!r}")
            ids.append(tokenizer.token_to_id(token))
            text = text[len(token):]
        decoded.append(ids)
    write(name + ".expected.json", expect(tokenizer))
    write(name + ".decoded.json", [{"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=False)}
                                   for ids in decoded])


def expect(tokenizer):
    return [{"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids} for text in TEXTS]


def write(name, value):
    (FOLDER / name).write_text(json.dumps(value, ensure_ascii=True, indent=None, separators=(",", ":")) + "\n")


def save(name, tokenizer, edit=lambda file: None):
    file = json.loads(tokenizer.to_str())
    edit(file)
    tokenizer = Tokenizer.from_str(json.dumps(file))
    write(name + ".json", file)
    write(name + ".expected.json", expect(tokenizer))


def drop_some_merges(file):
    # Tokens that no merge produces any more: only ignore_merges finds them, as whole pieces.
    file["model"]["merges"] = [m for i, m in enumerate(file["model"]["merges"]) if i % 7 != 5]


def old_merges(file):
    # The format of GPT-2's time: one string per pair.
    file["model"]["merges"] = [" ".join(pair) for pair in file["model"]["merges"]]


gpt2 = train(pre_tokenizers.ByteLevel(add_prefix_space=False), 600)
gpt2.add_tokens([AddedToken("<|endoftext|>", normalized=True)])
save("gpt2_style", gpt2, old_merges)

llama3 = train(split(LLAMA3), 800, ignore_merges=True)
llama3.add_special_tokens(special("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"))
save("llama3_style", llama3, drop_some_merges)

qwen2 = train(split(QWEN2), 700, normalizer=normalizers.NFC())
qwen2.add_special_tokens(special("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
qwen2.add_tokens([AddedToken("<word>", normalized=True), AddedToken("<words>", normalized=True)])
save("qwen2_style", qwen2)

replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
prepend = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, replace]}
characters = llama2()
save_llama2("llama2_style", characters, None, prepend)
save_llama2("llama2_normalized_style", characters, None, prepend, normalized=True)
for scheme, words in [("first", False), ("always", True)]:
    save_llama2(f"metaspace_{scheme}_style", characters,
                {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": words}, None)

# Gemma: no space is put before texts, so that none is stripped; spaces are gone where it splits.
without_strip = characters["decoder"] | {"decoders": characters["decoder"]["decoders"][:3]}
save_llama2("gemma_style", characters | {"decoder": without_strip},
            {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}, replace)

if len(sys.argv) == 3:
    tokenizer = Tokenizer(models.BPE.from_file(sys.argv[1], sys.argv[2]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(special("<|endoftext|>"))
    write("gpt2_full.expected.json", expect(tokenizer))
