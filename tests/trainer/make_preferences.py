#!/usr/bin/env python3
"""Makes tests/trainer/preferences/: a small Llama with an adapter, pairs of answers, and what TRL's DPOTrainer makes of
ten steps of learning from them (float32 on the CPU).

    pip install torch "transformers>=5" peft trl tokenizers
    python3 tests/trainer/make_preferences.py

The adapter's B is not zero, so that the reference is the model with the adapter as it is at the start.
"""
import json
import pathlib
import shutil
import sys
import tempfile

import datasets
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from trl import DPOConfig, DPOTrainer

# Nothing is cached, so that functions need no hash, which some versions cannot make.
datasets.disable_caching()
datasets.fingerprint.Hasher.hash = classmethod(lambda cls, value: "none")

FOLDER = pathlib.Path(__file__).parent / "preferences"
STEPS = 10
PAIRS = 20  # all of them in every step, so that their order does not matter
CASES = {  # settings of TRL
    "dpo": dict(loss_type=["sigmoid"], beta=0.3),
    "ipo": dict(loss_type=["ipo"], beta=0.2),
    # TRL's mean over the tokens of a batch is that over its pairs, as the chosen answers are equally long.
    "dpo_sft": dict(loss_type=["sigmoid", "sft"], loss_weights=[1.0, 0.5], beta=0.3),
}
RECORDED = {"loss": "loss", "rewards/chosen": "rewards_chosen", "rewards/rejected": "rewards_rejected",
            "rewards/margins": "rewards_margins", "rewards/accuracies": "rewards_accuracies",
            "logps/chosen": "logps_chosen", "logps/rejected": "logps_rejected"}


def make_tokenizer(folder):
    """A token for each byte, and one that ends texts."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: i for i, letter in enumerate(alphabet)}
    vocab["<|endoftext|>"] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>",
                                                pad_token="<|endoftext|>")
    fast.save_pretrained(folder)
    return fast


def make_pairs():
    pairs = []
    for i in range(PAIRS):
        right, wrong = f"{3 * i + 1:<4}", "no " * (1 + i % 4)
        pairs.append({"prompt": f"{i} and {2 * i + 1} is ", "chosen": right, "rejected": wrong})
    return pairs


def make_model():
    torch.manual_seed(7)
    config = transformers.LlamaConfig(
        vocab_size=257, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=128, tie_word_embeddings=True, initializer_range=0.2,
        bos_token_id=None, eos_token_id=256, pad_token_id=None)
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(FOLDER / "model")
    adapted = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM"))
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.05)
    adapted.save_pretrained(FOLDER / "adapter")
    (FOLDER / "adapter" / "README.md").unlink(missing_ok=True)
    for weights in FOLDER.glob("*/*.safetensors"):
        weights.chmod(0o644)


def learn(settings, tokenizer):
    base = transformers.AutoModelForCausalLM.from_pretrained(FOLDER / "model", dtype=torch.float32)
    model = PeftModel.from_pretrained(base, FOLDER / "adapter", is_trainable=True)
    with tempfile.TemporaryDirectory() as out:
        arguments = DPOConfig(
            output_dir=out, max_steps=STEPS, per_device_train_batch_size=PAIRS, learning_rate=3e-3,
            lr_scheduler_type="constant", warmup_steps=0, weight_decay=0.0, max_grad_norm=0.0, adam_beta1=0.9,
            adam_beta2=0.95, adam_epsilon=1e-8, logging_steps=1, save_strategy="no", report_to=[], bf16=False,
            gradient_checkpointing=False, use_cpu=True, max_length=64, disable_tqdm=True, **settings)
        trainer = DPOTrainer(model, args=arguments, processing_class=tokenizer,
                          train_dataset=datasets.Dataset.from_list(make_pairs()))
        trainer.train()
    rows = [row for row in trainer.state.log_history if "rewards/chosen" in row]
    assert len(rows) == STEPS, rows
    return [{ours: float(row[theirs]) for theirs, ours in RECORDED.items()} for row in rows]


def main():
    if FOLDER.exists():
        shutil.rmtree(FOLDER)
    FOLDER.mkdir()
    tokenizer = make_tokenizer(FOLDER / "model")
    make_model()
    tokenizer.save_pretrained(FOLDER / "model")
    (FOLDER / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in make_pairs()))
    expected = {name: learn(settings, tokenizer) for name, settings in CASES.items()}
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
