#!/usr/bin/env python3
"""The process of TRL, PEFT and transformers that bench/against_trl.py starts: python3 bench/trl_peer.py OUT.

OUT/task.json says what to do. It leaves in OUT the data and the folders that both programs read, and
in OUT/peer.json losses, speeds and memory, written anew after each row.
"""
import concurrent.futures
import gc
import inspect
import json
import math
import os
import pathlib
import random
import resource
import shutil
import sys
import time

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TRANSFORMERS_VERBOSITY="error")

import torch  # noqa: E402
import transformers  # noqa: E402
import yaml  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARD_BYTES = 4 << 30
SEED = 1

# {% generation %} marks what carries loss: the assistant's words and the end of its turn.
TEMPLATE = """{%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\\n' }}
{%- if message['role'] == 'assistant' %}
{%- generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}
{%- else %}
{{- message['content'] + '<|im_end|>' }}
{%- endif %}
{{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

# Shapes in the words of configs/models/, which have the others.
SMALL = {"layers": 2, "width": 128, "heads": 4, "kv_heads": 2, "head_width": 32, "ffn_width": 256, "max_sequence": 4096,
         "rope_theta": 1e4}
SHAPES = {"tiny-qwen3": {**SMALL, "family": "qwen3", "tied": True, "norm_eps": 1e-6},
          "tiny-qwen2": {**SMALL, "family": "qwen2", "tied": True, "norm_eps": 1e-6},
          "tiny-llama": {**SMALL, "family": "llama", "tied": False, "norm_eps": 1e-5}}
CLASSES = {"llama": (transformers.LlamaConfig, "LlamaForCausalLM"),
           "qwen2": (transformers.Qwen2Config, "Qwen2ForCausalLM"),
           "qwen3": (transformers.Qwen3Config, "Qwen3ForCausalLM")}


# --- What both read ---------------------------------------------------------------------------------

def train_tokenizer(text, vocab):
    """A byte-level BPE of the text, with the tokens of chats."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=vocab, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"]))
    return tokenizer


def save_tokenizer(tokenizer, folder):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}, indent=1))
    (folder / "chat_template.jinja").write_text(TEMPLATE)


class Words:
    """Draws words of a text, and lengths in tokens, log-normal around `mean` and at most 0.9 of `longest`."""

    def __init__(self, text, tokenizer, mean, longest):
        self._words, self._mean, self._longest = text.split(), mean, longest * 0.9
        self._a_word = len(tokenizer.encode(" ".join(self._words)).ids) / len(self._words)
        self.draw = random.Random(SEED)

    def length(self, least):
        sigma = 0.8
        length = self.draw.lognormvariate(math.log(self._mean) - sigma * sigma / 2, sigma)
        return min(max(length, least), self._longest)

    def turn(self, role, tokens):
        """A message; its template has some of the tokens."""
        count = max(1, int(tokens / self._a_word) - 4)
        start = self.draw.randrange(len(self._words) - count)
        return {"role": role, "content": " ".join(self._words[start: start + count])}


def write_chats(file, text, tokenizer, mean, tokens, longest):
    """Chats of one to three turns, of `mean` tokens on average, `tokens` in all."""
    words = Words(text, tokenizer, mean, longest)
    with open(file, "w") as out:
        while tokens > 0:
            turns = words.draw.choice([1, 1, 2, 3])
            length = words.length(16 * turns)
            messages = [words.turn(role, length / turns * share)
                        for _ in range(turns) for role, share in (("user", 0.3), ("assistant", 0.7))]
            out.write(json.dumps({"messages": messages}) + "\n")
            tokens -= length


def write_pairs(file, text, tokenizer, mean, tokens, longest):
    """Pairs of answers to a prompt, of different words and lengths. A text is the prompt with one answer: `mean` tokens on
    average, and so few at most that both texts of a pair fit into `longest`. `tokens` of all texts."""
    words = Words(text, tokenizer, mean, longest * 0.45)
    with open(file, "w") as out:
        while tokens > 0:
            prompt, chosen, rejected = (share * words.length(16) for share in (0.3, 0.7, 0.7))
            out.write(json.dumps({"prompt": [words.turn("user", prompt)], "chosen": [words.turn("assistant", chosen)],
                                  "rejected": [words.turn("assistant", rejected)]}) + "\n")
            tokens -= 2 * prompt + chosen + rejected


def config_of(name, vocab):
    """transformers' configuration of a shape; `vocab`: of the tokenizer, for shapes that have no vocabulary of their own."""
    shape = SHAPES.get(name) or yaml.safe_load((ROOT / f"configs/models/{name}.yaml").read_text())["model"]
    heads, width = shape["heads"], shape["width"]
    return CLASSES[shape["family"]][0](
        vocab_size=shape.get("vocab", vocab), hidden_size=width, intermediate_size=shape["ffn_width"],
        num_hidden_layers=shape["layers"], num_attention_heads=heads, num_key_value_heads=shape["kv_heads"],
        head_dim=shape.get("head_width", width // heads), max_position_embeddings=shape["max_sequence"],
        rms_norm_eps=float(shape["norm_eps"]), rope_parameters={"rope_type": "default", "rope_theta": float(shape["rope_theta"])},
        tie_word_embeddings=shape["tied"], attention_dropout=0.0, bos_token_id=None, eos_token_id=2, pad_token_id=0)


def random_weights(config, device, dtype, std):
    """By name as checkpoints have it, made on the device: matrices normal, biases zero, the norms' vectors one."""
    with torch.device("meta"):
        shapes = {name: p.shape for name, p in transformers.AutoModelForCausalLM.from_config(config).named_parameters()}
    generator = torch.Generator(device).manual_seed(SEED)
    return {name: (torch.empty(shape, dtype=dtype, device=device).normal_(0, std, generator=generator) if len(shape) > 1
                   else torch.full(shape, 0.0 if name.endswith(".bias") else 1.0, dtype=dtype, device=device))
            for name, shape in shapes.items()}


def save_weights(weights, config, folder):
    folder.mkdir(parents=True, exist_ok=True)
    shards, size = [{}], 0
    for name, tensor in weights.items():
        size += tensor.nbytes
        if size > SHARD_BYTES and shards[-1]:
            shards.append({})
            size = tensor.nbytes
        shards[-1][name] = tensor
    files = [f"model-{number:05}-of-{len(shards):05}.safetensors" for number in range(1, len(shards) + 1)]
    where = {name: file for file, shard in zip(files, shards) for name in shard}

    def write(file, shard):
        save_file({name: tensor.cpu() for name, tensor in shard.items()}, folder / file, metadata={"format": "pt"})

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        list(threads.map(write, files, shards))
    config.architectures = [CLASSES[config.model_type][1]]
    config.dtype = next(iter(weights.values())).dtype
    config.save_pretrained(folder)
    # Last: a folder without it is one that was not finished.
    (folder / "model.safetensors.index.json").write_text(json.dumps(
        {"metadata": {"total_size": sum(t.nbytes for t in weights.values())}, "weight_map": where}))


def load_weights(folder, device):
    weights = {}
    for file in sorted(folder.glob("*.safetensors")):
        weights.update(load_file(file, device=device))
    return weights


def model_of(config, weights, device, attention):
    """A model whose parameters are these tensors themselves, not copies of them."""
    from accelerate import init_empty_weights
    with init_empty_weights(include_buffers=False):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    missing = [name for name, p in model.named_parameters() if p.is_meta]
    if missing:
        sys.exit(f"the folder has no {', '.join(missing)}")
    return model.to(device)


def lora_of(lora):
    import peft
    return peft.LoraConfig(task_type="CAUSAL_LM", r=lora["rank"], lora_alpha=lora["alpha"], lora_dropout=0.0,
                           target_modules="all-linear")


# --- Attention --------------------------------------------------------------------------------------

def varlen_attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, cu_seq_lens_q=None,
                     max_length_q=None, **unused):
    """PyTorch's flash attention between the bounds of examples that TRL's batches have: what the package flash-attn
    computes for attn_implementation flash_attention_2. `query` [1, heads, tokens, head_dim]."""
    from torch.nn.attention.varlen import varlen_attn
    known = inspect.signature(varlen_attn).parameters
    options = {"window_size": (-1, 0)} if "window_size" in known else {"is_causal": True}
    if "enable_gqa" in known:
        options["enable_gqa"] = True
    query, key, value = (x[0].transpose(0, 1).contiguous() for x in (query, key, value))
    out = varlen_attn(query, key, value, cu_seq_lens_q, cu_seq_lens_q, int(max_length_q), int(max_length_q),
                      scale=scaling, **options)
    return out.unsqueeze(0), None


def causal_attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **unused):
    """PyTorch's flash attention of whole rows: right where all padding is behind the tokens, since none attends to a later one.
    transformers makes no mask for an implementation that it does not know. `query` [rows, heads, tokens, head_dim]."""
    if attention_mask is not None:
        raise ValueError("this attention takes no mask")
    out = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling,
                                                           enable_gqa=True)
    return out.transpose(1, 2).contiguous(), None


# --- Training ---------------------------------------------------------------------------------------

def trainer_config(task, part, out, **more):
    import trl
    if task["pairs"]:
        make, own = trl.DPOConfig, {"beta": task["beta"]}
    else:
        make, own = trl.SFTConfig, {"packing": True, "packing_strategy": "bfd",
                                    "assistant_only_loss": task["loss_on"] == "assistant"}
    return make(
        output_dir=str(out / "trl"), max_length=part["sequence"], max_steps=part["steps"], learning_rate=part["lr"],
        lr_scheduler_type="linear", warmup_steps=0, optim="adamw_torch", adam_beta1=task["betas"][0],
        adam_beta2=task["betas"][1], adam_epsilon=task["eps"], weight_decay=task["weight_decay"],
        max_grad_norm=task["clip_grad_norm"], seed=SEED, report_to="none", save_strategy="no", logging_strategy="no",
        disable_tqdm=True, use_cpu=task["device"] == "cpu", **own, **more)


def trainer_class(task):
    """SFTTrainer or DPOTrainer that keeps each step's loss (logs round it or average it), its tokens and its end."""
    import trl

    class Trainer(trl.DPOTrainer if task["pairs"] else trl.SFTTrainer):
        reference_seconds = None  # that it takes to precompute all reference log-probabilities

        def watch(self, base=None):
            self.losses, self.margins, self.tokens, self.ends, self.most = [], [], [], [], 0
            trainer = self

            class Steps(transformers.TrainerCallback):
                def on_step_begin(self, *unused, **also_unused):
                    trainer.losses.append(0)
                    trainer.tokens.append(0)

                def on_step_end(self, *unused, **also_unused):
                    trainer.losses[-1] = float(trainer.losses[-1])  # waits for the GPU, also for the update
                    trainer.tokens[-1] = int(trainer.tokens[-1])
                    if task["pairs"]:
                        trainer.margins.append(trainer._metrics["train"]["rewards/margins"][-1])
                    # PyTorch's allocator gives nothing back meanwhile: what it has now is the most that it had.
                    trainer.most = max(trainer.most, memory_in_use(base))
                    trainer.ends.append(time.perf_counter())

            self.add_callback(Steps)
            self.remove_callback(transformers.PrinterCallback)
            return self

        def training_step(self, model, inputs, *rest, **more):
            # Packed rows have no padding, and no mask.
            mask = inputs.get("attention_mask")
            self.tokens[-1] = self.tokens[-1] + (inputs["position_ids"].numel() if mask is None else mask.sum())
            loss = super().training_step(model, inputs, *rest, **more)
            self.losses[-1] = self.losses[-1] + loss.detach()
            return loss

        def _precompute_ref_logps(self, *rest):
            begin = time.perf_counter()
            dataset = super()._precompute_ref_logps(*rest)
            self.reference_seconds = time.perf_counter() - begin
            return dataset

    return Trainer


def data_of(file):
    import datasets
    datasets.disable_progress_bars()
    return datasets.Dataset.from_json(str(file))


def write_data(task, part, file, tokenizer, tokens):
    write = write_pairs if task["pairs"] else write_chats
    write(file, pathlib.Path(task["text"]).read_text(), tokenizer, part["mean"], tokens, part["sequence"])


def train_losses(task, out):
    """A step is the whole data set. Leaves OUT/small and OUT/adapter."""
    import peft
    small = task["loss"]
    torch.backends.cuda.matmul.allow_tf32 = False
    tokenizer = train_tokenizer(pathlib.Path(task["text"]).read_text(), small["vocab"])
    save_tokenizer(tokenizer, out / "small")
    config = config_of(small["model"], small["vocab"])
    weights = random_weights(config, "cpu", torch.float32, small["std"])
    save_weights(weights, config, out / "small")
    write_data(task, small, out / "small.jsonl", tokenizer, small["tokens"])
    torch.manual_seed(SEED)
    base = model_of(config, {name: w.clone() for name, w in weights.items()}, "cpu", "sdpa")
    peft.get_peft_model(base, lora_of(small["lora"])).save_pretrained(out / "adapter")

    processor = transformers.AutoTokenizer.from_pretrained(out / "small")
    base = transformers.AutoModelForCausalLM.from_pretrained(out / "small", dtype=torch.float32, attn_implementation="sdpa")
    model = peft.PeftModel.from_pretrained(base, out / "adapter", is_trainable=True)
    data = data_of(out / "small.jsonl")

    def new_trainer(batch, accumulate):
        return trainer_class(task)(
            model=model, processing_class=processor, train_dataset=data,
            args=trainer_config(task, small, out, bf16=False, gradient_checkpointing=False, per_device_train_batch_size=batch,
                                gradient_accumulation_steps=accumulate)).watch()

    if task["pairs"]:
        trainer = new_trainer(len(data), 1)
        trainer.train()
        return {"losses": trainer.losses, "rewards_margins": trainer.margins, "examples": len(trainer.train_dataset),
                "tokens": trainer.tokens[0], "targets": len(trainer.train_dataset)}
    rows = len(new_trainer(1, 1).train_dataset)
    batch = max(n for n in range(1, 9) if rows % n == 0)
    trainer = new_trainer(batch, rows // batch)
    trainer.train()
    labels = [label for row in trainer.train_dataset["labels"] for label in row]
    return {"losses": trainer.losses, "rows": rows, "tokens": trainer.tokens[0],
            "examples": sum(len(row) for row in trainer.train_dataset["seq_lengths"]),
            "targets": sum(label != -100 for label in labels)}


def memory_in_use(base):
    """On the GPU above `base`, what was in use before the benchmark; without `base` the process's peak in RAM."""
    if base is None:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    import budget_sweep
    return budget_sweep.Nvml().memory().used - base


def make_folder(task, out):
    """OUT/NAME and OUT/DATA.jsonl of the timed runs; the weights, which are then on the device, or with all of them trained
    on the CPU, since each row has copies of its own."""
    large = task["speed"]
    folder = pathlib.Path(large["folder"])
    tokenizer = train_tokenizer(pathlib.Path(task["text"]).read_text(), large["vocab"])
    config = config_of(large["model"], large["vocab"])
    if (folder / "model.safetensors.index.json").exists():
        weights = load_weights(folder, "cpu" if large["full"] else task["device"])
    else:
        shutil.rmtree(folder, ignore_errors=True)
        weights = random_weights(config, task["device"], torch.bfloat16, 0.02)
        if large["full"]:
            weights = {name: weight.cpu() for name, weight in weights.items()}
        save_weights(weights, config, folder)
    save_tokenizer(tokenizer, folder)
    write_data(task, large, out / large["data"], tokenizer, (large["steps"] + 2) * large["rows"] * large["sequence"])
    config.dtype = torch.float32 if large["full"] else torch.bfloat16
    return folder, config, weights


def time_row(row, task, out, folder, config, weights):
    large = task["speed"]
    on_gpu = task["device"] != "cpu"

    def new_model():
        taken = {name: w.to(task["device"], torch.float32) for name, w in weights.items()} if large["full"] else weights
        return model_of(config, taken, task["device"], row["attention"])

    more = {} if large["full"] else {"peft_config": lora_of(large["lora"])}
    options = {}
    if task["pairs"]:
        options["precompute_ref_log_probs"] = row["precompute"]
        if large["full"] and not row["precompute"]:
            more["ref_model"] = new_model()
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    trainer = trainer_class(task)(
        model=new_model(), processing_class=transformers.AutoTokenizer.from_pretrained(folder),
        train_dataset=data_of(out / large["data"]), **more,
        args=trainer_config(task, large, out, bf16=True, gradient_checkpointing=row["checkpointing"],
                            per_device_train_batch_size=large["batch"], **options)).watch(task["base"])
    trainer.train()
    first = large["warmup"]
    seconds = trainer.ends[-1] - trainer.ends[first - 1]
    return {"tokens_per_s": sum(trainer.tokens[first:]) / seconds, "step_ms": seconds * 1e3 / (len(trainer.ends) - first),
            "tokens_per_step": sum(trainer.tokens[first:]) / (len(trainer.ends) - first), "losses": trainer.losses,
            "reference_seconds": trainer.reference_seconds, "examples": len(trainer.train_dataset),
            "process_bytes": trainer.most, "allocated_bytes": torch.cuda.max_memory_allocated() if on_gpu else None}


def main():
    out = pathlib.Path(sys.argv[1])
    task = json.loads((out / "task.json").read_text())
    os.environ["HF_DATASETS_CACHE"] = str(out / "cache")
    import peft
    import trl
    if task["pairs"]:
        import trl.trainer.dpo_trainer
        # Each row computes the reference anew. TRL would take an earlier row's numbers, found by a hash of all weights, which
        # takes seconds.
        trl.trainer.dpo_trainer.hash_module = lambda module: str(time.time_ns())
    transformers.AttentionInterface.register("varlen", varlen_attention)
    transformers.AttentionInterface.register("causal", causal_attention)
    result = {"versions": {m.__name__: m.__version__ for m in (torch, transformers, peft, trl)}, "seconds": {}, "rows": {}}

    def finish(what, start):
        result["seconds"][what] = time.perf_counter() - start
        (out / "peer.json").write_text(json.dumps(result, indent=1))
        print(f"TRL: {what}: {result['seconds'][what]:.1f} s", flush=True)
        gc.collect()
        if task["device"] != "cpu":
            torch.cuda.empty_cache()

    if task.get("loss"):
        start = time.perf_counter()
        result["loss"] = train_losses(task, out)
        finish("losses", start)
    if task.get("speed"):
        start = time.perf_counter()
        made = make_folder(task, out)
        finish("folder", start)
    for name, row in task.get("rows", {}).items():
        start = time.perf_counter()
        try:
            result["rows"][name] = time_row(row, task, out, *made)
        except torch.OutOfMemoryError:
            result["rows"][name] = {"error": "out of memory"}
        except Exception as error:  # the other rows may do
            result["rows"][name] = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        finish(name, start)


if __name__ == "__main__":
    main()
