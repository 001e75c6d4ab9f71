#!/usr/bin/env bash
# usage: classifier_mpi_test.sh MPIRUN.SH PLIMSOLL
#
# Evaluations of a classifier on several ranks: accuracy, F1, MCC and the confusion matrix are those that one rank finds
# with the weights that the run has left, and so are the surest mistakes in the report.
source tests/parallel/ranks.sh

# Ten classes of 8 × 8 pixels: noise, and a row or column that is brighter. Those for tests fill no whole batch.
mkdir images
python3 - <<'END'
import random, struct

random.seed(7)
for part, count in ("train", 256), ("t10k", 101):
    labels = bytes(random.randrange(10) for _ in range(count))
    pixels = bytearray()
    for label in labels:
        for y in range(8):
            for x in range(8):
                bright = y == label if label < 5 else x == label - 5
                pixels.append(random.randrange(160) + (70 if bright else 0))
    with open(f"images/{part}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">4i", 0x803, count, 8, 8) + pixels)
    with open(f"images/{part}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">2i", 0x801, count) + labels)
END

cat >resnet.yaml <<'END'
model: {family: resnet, depth: 8, image_size: 8, channels: 1, classes: 10}
data: {source: images, folder: images}
train: {steps: 12, micro_batch: 8, global_batch: 48, eval_every: 6, eval_sequences: 0, threads: 1}
optimizer: {name: sgd, lr: 0.05, momentum: 0.9, clip_grad_norm: 0}
schedule: {name: constant}
memory: {summary: false, calibrate: false}
log: {tensorboard: false}
device: cpu
END
sed 's|^model:.*|model: {family: vit, layers: 1, width: 16, heads: 2, patch: 4, image_size: 8, channels: 1, classes: 10}|' \
  resnet.yaml >vit.yaml
# One rank evaluates the weights of another run, after a step that changes none.
cat >one.yaml <<'END'
data: {source: images, folder: images}
train: {steps: 1, micro_batch: 8, eval_every: 1, eval_sequences: 0, threads: 1}
optimizer: {name: sgd, lr: 1e-30, momentum: 0, weight_decay: 0}
schedule: {name: constant}
memory: {summary: false, calibrate: false}
log: {tensorboard: false}
device: cpu
END

cat >compare.py <<'END'
import json, sys


def evaluation(run):
    rows = [json.loads(line) for line in open(run + "/metrics.jsonl")]
    return [row for row in rows if "eval_loss" in row][-1]


def mistakes(run):
    page = open(run + "/report.html").read()
    begin = page.index('id="data">') + len('id="data">')
    views = json.loads(page[begin:page.index("</script>", begin)])["views"]
    return [view for view in views if view["type"] == "images"][0]["images"]


def require_same(what, several, one):
    if several != one:
        sys.exit(f"{what}: {several} of several ranks, {one} of one")


run, scores = evaluation("several"), json.load(open("eval.json"))
for name in "accuracy", "top5", "f1", "mcc", "confusion":
    require_same(name, run["eval_" + name], scores[name])
require_same("samples", sum(map(sum, run["eval_confusion"]["sum"])), 101)
if abs(run["eval_loss"] - scores["loss"]) > 1e-5:
    require_same("loss", run["eval_loss"], scores["loss"])

several, one = mistakes("several"), mistakes("one")
if len(one) != 24:
    sys.exit(f"{len(one)} mistakes, too few to choose among")
for name in "sample", "label", "prediction", "pixels":
    require_same(name, [image[name] for image in several], [image[name] for image in one])
END

both=()  # arguments of both runs
compare() {  # FAMILY RANKS [ARGUMENT…]
  local family=$1 ranks=$2 as_it_is=()
  shift 2
  [ "$family" != resnet ] || as_it_is=(--set model.norms=frozen)
  rm -rf several one
  "$mpirun_sh" "$ranks" "$plimsoll" train "$family.yaml" --set run.dir=several "${both[@]}" "$@" >run.txt 2>&1 ||
    fail "$family, $ranks ranks, $*: $(cat run.txt)"
  "$plimsoll" eval several --json >eval.json 2>eval.txt || fail "$family, $ranks ranks, $*: $(cat eval.txt)"
  "$plimsoll" train one.yaml --set run.dir=one --set model.init_from=several/model "${both[@]}" "${as_it_is[@]}" \
    >one.txt 2>&1 || fail "$family, $ranks ranks, $*: $(cat one.txt)"
  python3 compare.py || fail "$family, $ranks ranks, $*"
}

compare resnet 2 --set parallel.data=2
compare resnet 3 --set parallel.data=3
compare resnet 2 --set parallel.data=2 --set model.norm_samples=4
compare resnet 2 --set parallel.data=2 --set parallel.sync_norm=true
compare resnet 2 --set parallel.data=2 --set parallel.zero=1
compare resnet 2 --set parallel.data=2 --set parallel.zero=3
# Ranks that share a model's tensors see the same images, each of which counts once.
compare vit 4 --set parallel.data=2 --set parallel.tensor=2
# Only the last of two stages has the results of samples.
compare vit 2 --set model.layers=2 --set parallel.pipeline=2
# The same images as files of their own.
"$plimsoll" data images pictures --from images >pictures.txt 2>&1 || fail "$(cat pictures.txt)"
both=(--set data.folder=pictures --set data.random_resized_crop=false --set data.resize=8)
compare resnet 2 --set parallel.data=2
echo "passed"
