#!/usr/bin/env bash
# usage: evaluations_mpi_test.sh MPIRUN.SH PLIMSOLL
#
# An evaluation is a function of weights and held-out samples: for every family it has the same loss and metrics
# with micro-batches of 1, 2, 5 and 8 and on 1, 2 and 4 ranks. Eleven samples are held out, which fill no batch of 2, 5
# or 8, nor one of each rank.
source tests/parallel/ranks.sh

python3 - <<'END'
import json, os, random, struct

random.seed(7)
for part, count in ("train", 64), ("t10k", 11):
    os.makedirs("images", exist_ok=True)
    with open(f"images/{part}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">4i", 0x803, count, 8, 8) + bytes(random.randrange(256) for _ in range(count * 64)))
    with open(f"images/{part}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">2i", 0x801, count) + bytes(random.randrange(3) for _ in range(count)))
words = ["some", "more", "words", "of", "a", "text", "that", "goes", "on"]
with open("vocab.txt", "w") as file:
    file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + words) + "\n")
for part, count in ("train", 90), ("held", 11):
    with open(part + ".txt", "w") as file:
        for _ in range(count):
            file.write(" ".join(random.choice(words) for _ in range(30)) + "\n%\n")
    labels = {
        "classes": lambda: random.choice("abc"),
        "lists": lambda: [name for name in "abc" if random.random() < 0.5],
        "numbers": lambda: random.uniform(1, 5),
    }
    for kind, label in labels.items():
        with open(f"{part}_{kind}.jsonl", "w") as file:
            for _ in range(count):
                text = " ".join(random.choice(words) for _ in range(random.randrange(2, 20)))
                file.write(json.dumps({"text": text, "label": label()}) + "\n")
    with open(part + "_examples.jsonl", "w") as file:
        for _ in range(count):
            prompt, completion = (random.choice(words) * random.randrange(1, 4) for _ in range(2))
            file.write(json.dumps({"prompt": prompt, "completion": completion}) + "\n")
END

tokens='{train: train.txt, eval: held.txt, format: text, tokenizer: byte}'
examples='{train: train_examples.jsonl, eval: held_examples.jsonl, tokenizer: byte}'
masked='{source: masked_text, train: train.txt, eval: held.txt, document_separator: "%", tokenizer: vocab.txt}'
labelled() { echo "{source: labelled_text, train: train_$1.jsonl, eval: held_$1.jsonl, tokenizer: vocab.txt}"; }
pictures='{source: images, folder: images}'
volumes='{source: synthetic_volumes, volumes: 4, held_out: 11}'

# name: model; what of it stands beside weights; data
cases() {
  local language='layers: 1, width: 16, heads: 2' bert='family: bert, layers: 1, width: 8, heads: 2'
  local image='image_size: 8, channels: 1'
  cat <<END
gpt2|family: gpt2, $language, sequence: 12|sequence: 12|$tokens
llama|family: llama, $language, kv_heads: 1, sequence: 12|sequence: 12|$examples
qwen2|family: qwen2, $language, kv_heads: 1, sequence: 12|sequence: 12|$tokens
qwen3|family: qwen3, $language, kv_heads: 1, head_width: 12, sequence: 12|sequence: 12|$tokens
mistral|family: mistral, $language, kv_heads: 1, sequence: 12|sequence: 12|$tokens
gemma2|family: gemma2, $language, kv_heads: 1, window: 5, sequence: 12|sequence: 12|$tokens
gemma3_text|family: gemma3_text, $language, kv_heads: 1, window: 5, sequence: 12|sequence: 12|$tokens
masked_lm|$bert, sequence: 12|sequence: 12|$masked
pretraining|$bert, task: pretraining, sequence: 24|task: pretraining, sequence: 24|${masked%\}}, pairs: true}
classification|$bert, task: classification, classes: 3, sequence: 12|task: classification, sequence: 12|$(labelled classes)
multi_label|$bert, task: classification, classes: 3, problem_type: multi_label_classification, sequence: 12|task: classification, sequence: 12|$(labelled lists)
regression|$bert, task: classification, problem_type: regression, sequence: 12|task: classification, sequence: 12|$(labelled numbers)
vit|family: vit, layers: 1, width: 16, heads: 2, patch: 4, $image, classes: 3||$pictures
resnet|family: resnet, depth: 8, $image, classes: 3||$pictures
resnet_groups|family: resnet, depth: 8, $image, classes: 3, norm_samples: 4||$pictures
unet|family: unet, image_depth: 8, image_height: 8, image_width: 8, levels: 2, features: 2, classes: 3||$volumes
dcgan|family: dcgan, $image, latent: 5, generator_features: 4, discriminator_features: 4||$pictures
dcgan_spectral|family: dcgan, $image, latent: 5, generator_features: 4, discriminator_features: 4, discriminator_norm: spectral||$pictures
END
}

cat >compare.py <<'END'
import json, sys


def evaluation(run):
    rows = [json.loads(line) for line in open(run + "/metrics.jsonl")]
    return [row for row in rows if "eval_loss" in row][0]


def numbers(name, value):
    if isinstance(value, dict):
        for key, member in value.items():
            yield from numbers(f"{name}.{key}", member)
    elif name.endswith("moments.sum"):  # each in two parts (ops/loss/squared_error.h)
        yield from numbers(name + ".whole", [upper + rest for upper, rest in zip(*value)])
    elif isinstance(value, list):
        for i, member in enumerate(value):
            yield from numbers(f"{name}[{i}]", member)
    elif isinstance(value, (int, float)):
        yield name, value


one, other = (dict(numbers("", evaluation(run))) for run in sys.argv[1:])
if one.keys() != other.keys() or len(one) < 2:
    sys.exit(f"{sorted(one)} and {sorted(other)}")
for name, value in one.items():
    if abs(value - other[name]) > 1e-6 * max(1, abs(value)):
        sys.exit(f"{name}: {value} of {sys.argv[1]}, {other[name]} of {sys.argv[2]}")
END

rest='optimizer: {lr: 1e-2}
memory: {summary: false, calibrate: false}
log: {tensorboard: false}
device: cpu
run: {overwrite: true}
'
while IFS='|' read -r name model beside data; do
  printf 'model: {%s}\ndata: %s\ntrain: {steps: 6, micro_batch: 8, eval_every: 0, threads: 1}\n%s' \
    "$model" "$data" "$rest" >run.yaml
  train 1 "base_$name"
  [ "$name" != resnet_groups ] || beside='norm_samples: 1'
  printf 'model: {init_from: base_%s/model%s}\ndata: %s\ntrain: {steps: 1, eval_every: 1, eval_sequences: 11, threads: 1}\n%s' \
    "$name" "${beside:+, $beside}" "$data" "$rest" >run.yaml
  for of in 1/8 1/1 1/2 1/5 2/1 2/5 4/1 4/8; do
    ranks=${of%/*} batch=${of#*/} run=one
    [ "$of" = 1/8 ] || run=other
    train "$ranks" "$run" --set train.micro_batch="$batch"
    [ "$run" = one ] || python3 compare.py one other || fail "$name, micro-batch $batch on $ranks ranks"
    [ "${name%_*}" != dcgan ] || cmp one/samples/step_0.png "$run/samples/step_0.png" || fail "$name: other pictures"
  done
done < <(cases)

# So has a new model, some of whose states follow from weights that ranks divide.
sed -i -E 's|init_from: base_[a-z_]*/model|family: dcgan, image_size: 8, channels: 1, discriminator_norm: spectral|' run.yaml
train 1 one
train 2 other --set parallel.zero=3
python3 compare.py one other || fail "a new model on ranks that divide its weights"
echo "passed"
