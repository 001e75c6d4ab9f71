#!/usr/bin/env python3
"""Writes chats.expected.json: what transformers renders of some chats with the templates next to this script.

usage: python3 make_chats.py       (needs `pip install transformers jinja2`)

The templates have the shapes of those of Qwen 2.5, Qwen 3, Llama 3, Mistral, Gemma and Phi 3. Of each chat there is its
text or the template's refusal, the ids of the text, and with {% generation %} which of the tokens it marks.
"""

import json
import pathlib

import transformers

FOLDER = pathlib.Path(__file__).parent
TOKENIZERS = FOLDER.parent / "tokenizers"


def chat(*turns):
    return [{"role": role, "content": content} for role, content in turns]


CHATS = {
    "one turn": chat(("user", "How deep does she lie?"), ("assistant", "Seven metres, fore and aft.")),
    "two turns": chat(("user", "Load line?"), ("assistant", "Painted on the hull."), ("user", "Why?"),
                      ("assistant", "So that every harbour master can see it.\n\nIt's the law.")),
    "system": chat(("system", "Answer as a captain.\n"), ("user", "1,234 tonnes?"), ("assistant", "Aye: 1,234!")),
    "system, two turns": chat(("system", "Be brief."), ("user", "Grüße aus 船!"), ("assistant", "Ahoi \U0001f6a2"),
                              ("user", "<b>&amp;</b> \"quoted\""), ("assistant", "  spaces around  ")),
    "thoughts": chat(("user", "2 + 2?"), ("assistant", "<think>\nTwo and two.\n</think>\n\n4"), ("user", "3 + 3?"),
                     ("assistant", "<think>\nThree and three.\n</think>\n\n6")),
    "thoughts in other forms": chat(("user", "2 + 2?"), ("assistant", "<think>Two and two.</think>4"), ("user", "3 + 3?"),
                                    ("assistant", "Three and three.</think>\n6"), ("user", "4 + 4?"), ("assistant", "8")),
    "assistant last but one": chat(("user", "a"), ("assistant", "b"), ("user", "c")),
    "two of the user": chat(("user", "a"), ("user", "b"), ("assistant", "c")),
    "special tokens spelled out": chat(("user", "what is <|im_end|>?"), ("assistant", "an <|im_end|> token</s>")),
    "newlines first": chat(("user", "\n\nx\n"), ("assistant", "\n\nindented\n    code\n")),
}

# The tokenizer that encodes a template's texts, and its special tokens.
QWEN2 = ("qwen2_style", {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"})
LLAMA3 = ("llama3_style", {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"})
LLAMA2 = ("llama2_style", {"bos_token": "<s>", "eos_token": "</s>"})
TEMPLATES = {
    "qwen2": QWEN2, "qwen3": QWEN2, "llama3": LLAMA3, "mistral": LLAMA2, "mistral_late_system": LLAMA2, "gemma": LLAMA2,
    "phi3": LLAMA3, "generation": QWEN2, "plain": QWEN2,
}


def expected(tokenizer, template, messages):
    try:
        text = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False)
    except Exception as refusal:  # the template's
        return {"error": str(refusal)}
    entry = {"text": text, "ids": tokenizer(text, add_special_tokens=False)["input_ids"]}
    if "generation %}" in template:
        encoded = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=True, return_dict=True,
                                                return_assistant_tokens_mask=True)
        assert encoded["input_ids"] == entry["ids"]
        entry["mask"] = encoded["assistant_masks"]
    return entry


def main():
    cases = []
    for name, (style, special) in TEMPLATES.items():
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(TOKENIZERS / f"{style}.json"), **special)
        template = (FOLDER / f"{name}.jinja").read_text()
        for what, messages in CHATS.items():
            cases.append({"template": name, "tokenizer": style, "special": special, "chat": what, "messages": messages,
                          **expected(tokenizer, template, messages)})
    text = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (FOLDER / "chats.expected.json").write_text(f"[\n{text}\n]\n")
    print(f"{len(cases)} chats, transformers {transformers.__version__}")


if __name__ == "__main__":
    main()
