"""Makes begins.expected.json: with which tokens transformers begins a text, for folders of many kinds.

usage: python3 make_begins.py       (needs `pip install transformers==5.24.0 sentencepiece`)

Each folder is a tokenizer file of this directory with another post_processor, and a tokenizer_config.json and config.json
next to it, as in published folders of the family that it is named after.
"""

import json
import pathlib
import tempfile

from transformers import AutoTokenizer

FOLDER = pathlib.Path(__file__).parent
TEXT = "The load line"


def template(before, vocab, after=None):
    def special(token):
        return {"SpecialToken": {"id": token, "type_id": 0}}
    single = [special(before)] if before else []
    single += [{"Sequence": {"id": "A", "type_id": 0}}] + ([special(after)] if after else [])
    tokens = {token: {"id": token, "ids": [vocab[token]], "tokens": [token]} for token in (before, after) if token}
    return {"type": "TemplateProcessing", "single": single,
            "pair": single + [{"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": tokens}


BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}


def ids_of(base):
    file = json.loads((FOLDER / base).read_text())
    return file["model"]["vocab"] | {token["content"]: token["id"] for token in file["added_tokens"]}


LLAMA2, LLAMA3, QWEN2, GPT2 = (ids_of(f"{name}_style.json") for name in ("llama2", "llama3", "qwen2", "gpt2"))
GEMMA = ids_of("gemma_style.json")
LLAMA2_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
LLAMA3_TOKENS = {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"}
GPT2_TOKENS = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}

FOLDERS = [
    # name, tokenizer file, post_processor, tokenizer_config.json, model_type of config.json
    ("Llama 2", "metaspace_first_style.json", template("<s>", LLAMA2),
     {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False, **LLAMA2_TOKENS}, "llama"),
    ("Llama 2, add_bos_token false", "metaspace_first_style.json", template("<s>", LLAMA2),
     {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": False, **LLAMA2_TOKENS}, "llama"),
    ("Llama 2 without post_processor", "metaspace_first_style.json", None,
     {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, **LLAMA2_TOKENS}, "llama"),
    ("Llama 3", "llama3_style.json",
     {"type": "Sequence", "processors": [BYTES, template("<|begin_of_text|>", LLAMA3)]},
     {"tokenizer_class": "PreTrainedTokenizerFast", **LLAMA3_TOKENS}, "llama"),
    ("Llama 3 as LlamaTokenizerFast", "llama3_style.json",
     {"type": "Sequence", "processors": [BYTES, template("<|begin_of_text|>", LLAMA3)]},
     {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": False, **LLAMA3_TOKENS}, "llama"),
    ("Gemma", "gemma_style.json", template("<s>", GEMMA),
     {"tokenizer_class": "GemmaTokenizer", "add_bos_token": True, **LLAMA2_TOKENS,
      "pad_token": "</s>", "mask_token": "<unk>"}, "gemma3_text"),
    ("Mistral", "metaspace_first_style.json", template("<s>", LLAMA2),
     {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, **LLAMA2_TOKENS}, "mistral"),
    ("Phi 3", "metaspace_first_style.json", template(None, LLAMA2),
     {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, **LLAMA2_TOKENS}, "phi3"),
    ("Code Llama", "metaspace_first_style.json", None,
     {"tokenizer_class": "CodeLlamaTokenizer", **LLAMA2_TOKENS}, "llama"),
    ("Qwen 2", "qwen2_style.json", BYTES,
     {"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": False, "bos_token": None, "eos_token": "<|endoftext|>"},
     "qwen2"),
    ("DeepSeek over Qwen 2", "qwen2_style.json", template("<|im_start|>", QWEN2),
     {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": True, "bos_token": "<|im_start|>",
      "eos_token": "<|im_end|>"}, "qwen2"),
    ("GPT-2, add_bos_token true", "gpt2_style.json", BYTES,
     {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, **GPT2_TOKENS}, "gpt2"),
    ("GPT-2 of vocab.json, add_bos_token true", "vocab.json", None,
     {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, **GPT2_TOKENS}, "gpt2"),
    ("GPT-2 of vocab.json", "vocab.json", None, {"tokenizer_class": "GPT2Tokenizer", **GPT2_TOKENS}, "gpt2"),
    ("GPT-NeoX", "gpt2_style.json", template("<|endoftext|>", GPT2),
     {"tokenizer_class": "GPTNeoXTokenizer", "add_bos_token": True, **GPT2_TOKENS}, "gpt2"),
    ("with both ends", "llama3_style.json", template("<|begin_of_text|>", LLAMA3, "<|end_of_text|>"),
     {"tokenizer_class": "PreTrainedTokenizerFast", **LLAMA3_TOKENS}, "llama"),
    ("with RobertaProcessing", "llama3_style.json",
     {"type": "RobertaProcessing", "cls": ["<|begin_of_text|>", LLAMA3["<|begin_of_text|>"]],
      "sep": ["<|end_of_text|>", LLAMA3["<|end_of_text|>"]], "trim_offsets": True, "add_prefix_space": False},
     {"tokenizer_class": "PreTrainedTokenizerFast", **LLAMA3_TOKENS}, "llama"),
]


def write(folder, base, post_processor, config, model_type):
    file = json.loads((FOLDER / ("gpt2_style.json" if base == "vocab.json" else base)).read_text())
    if base == "vocab.json":
        vocab = file["model"]["vocab"] | {token["content"]: token["id"] for token in file["added_tokens"]}
        (folder / "vocab.json").write_text(json.dumps(vocab))
        (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(file["model"]["merges"]) + "\n")
    else:
        file["post_processor"] = post_processor
        (folder / "tokenizer.json").write_text(json.dumps(file))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))


made = []
for name, base, post_processor, config, model_type in FOLDERS:
    with tempfile.TemporaryDirectory() as path:
        write(pathlib.Path(path), base, post_processor, config, model_type)
        tokenizer = AutoTokenizer.from_pretrained(path)
        ids, alone = tokenizer(TEXT)["input_ids"], tokenizer(TEXT, add_special_tokens=False)["input_ids"]
        begin = next(i for i in range(len(ids) + 1) if ids[i:i + len(alone)] == alone)
        made.append({"name": name, "base": base, "post_processor": post_processor, "config": config, "text": TEXT,
                     "ids": ids[:begin + len(alone)], "begin": ids[:begin]})
        print(f"{name}: {type(tokenizer).__name__}, begins with {ids[:begin]}")
lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in made)
(FOLDER / "begins.expected.json").write_text(f"[\n{lines}\n]\n")
