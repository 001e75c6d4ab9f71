#!/usr/bin/env bash
# usage: pipeline_mpi_test.sh MPIRUN.SH PLIMSOLL
#
# `plimsoll train` with pipeline stages: the files of one rank that accumulates as many micro-steps,
# to the bit, and the weights of its snapshots; in a study, too; the proof of `plan --check`; and
# refusals.
source tests/parallel/ranks.sh

cat >run.yaml <<'END'
model: {family: gpt2, layers: 5, width: 32, heads: 2, vocab: 96, sequence: 16, tied: false, dropout: 0.1}
data: {synthetic: true}
train: {steps: 6, micro_batch: 2, accumulate: 4, eval_every: 3, eval_sequences: 8, log_every: 1, threads: 1}
schedule: {warmup: 1}
optimizer: {state_dtype: int8}
amp: {dtype: bf16}
memory: {summary: false}
save: {every: 3, on_exit: true}
device: cpu
END

numbers() { grep -oE '"(step|loss|eval_loss|grad_norm)": *[0-9.e+-]*' "$1/metrics.jsonl"; }
same() {  # RUN RUN
  [ "$(numbers "$1" | wc -l)" -gt 15 ] || fail "$1 has no figures"
  cmp <(numbers "$1") <(numbers "$2") || fail "figures of $1 and $2"
  cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "weights of $1 and $2"
}

train 1 one
for stages in 3 5; do
  train $stages stages$stages --set parallel.pipeline=$stages
  same one stages$stages
done
train 3 by_hand --set parallel.pipeline=3 --set parallel.stages=[1,3,1]
same one by_hand
# No message is buffered.
PLIMSOLL_SYNCHRONOUS_SENDS=1 train 3 synchronous --set parallel.pipeline=3 --set checkpointing.policy=block
same one synchronous

# Each stage recomputes what it has to within the budget, and uses what was planned.
fixed=(--set parallel.pipeline=3 --set parallel.stages=[2,2,1] --set memory.calibrate=false)
budgeted=("${fixed[@]}" --set checkpointing.policy=auto --set memory.budget=600KiB --set debug.check_arena=true)
train 3 budget "${budgeted[@]}"
same one budget
tr -s '\n ' ' ' <budget.txt >chosen.txt
grep -q 'stage 0: [^;]*recompute' chosen.txt || fail "stage 0 keeps everything: $(cat chosen.txt)"
grep -q 'stage 2: keep all' chosen.txt || fail "stage 2 recomputes: $(cat chosen.txt)"
cat budget.txt budget/rank.*.log | sed -n 's/^.*arena: \([0-9]*\) bytes planned, \([0-9]*\) bytes used$/\1 \2/p' >arenas.txt
awk '$1 != $2 || $1 > 600 * 1024 { bad = 1 } END { exit bad || NR != 3 }' arenas.txt || fail "$(cat arenas.txt)"

# The same is planned on one process, and predicted of all stages.
"$plimsoll" plan run.yaml "${budgeted[@]}" --json >alone.json || fail "$(cat alone.json)"
"$mpirun_sh" 3 "$plimsoll" plan run.yaml "${budgeted[@]}" --json >together.json || fail "$(cat together.json)"
cmp alone.json <(sed -n 's/^\[0\] \([ {}]\)/\1/p' together.json) || fail "plans of one process and of three"
predicted() { grep -o '"predicted_step_ms": *[0-9.e+-]*' "$1" | head -1; }
cmp <(predicted alone.json | tr -d ' ') <(predicted budget/plan.json | tr -d ' ') || fail "predicted seconds"

"$plimsoll" export stages3 --step 3 --to exported >export.txt 2>&1 || fail "$(cat export.txt)"
"$plimsoll" export one --step 3 --to exported_one >export.txt 2>&1 || fail "$(cat export.txt)"
cmp exported/model.safetensors exported_one/model.safetensors || fail "other weights of a snapshot"

# Next to data ranks, whose dropout differs.
plain=(--set model.dropout=0 --set amp.dtype=fp32 --set optimizer.state_dtype=fp32 --set optimizer.eps=1e-5)
train 1 whole "${plain[@]}" --set train.accumulate=8
for mesh in "parallel.data=2" "parallel.data=2 parallel.zero=1"; do
  sets=()
  for set in $mesh; do sets+=(--set "$set"); done
  rm -rf mesh
  train 4 mesh "${plain[@]}" "${sets[@]}" --set parallel.pipeline=2
  near whole mesh 9
done

# A table that the first and the last stage share is saved once, and goes on with other stages and
# with none. Its gradient is summed in another order than one rank's.
tied=(--set model.tied=true --set train.eval_every=2 --set amp.dtype=fp32 --set optimizer.state_dtype=fp32 --set optimizer.eps=1e-5)
train 1 tied_one "${tied[@]}"
train 3 tied "${tied[@]}" --set parallel.pipeline=3 --set train.stop_after=2
train 1 tied "${tied[@]}" --resume auto --set train.stop_after=4
train 2 tied "${tied[@]}" --set parallel.pipeline=2 --resume auto
grep -q 'continues after 4 steps' tied.txt || fail "$(cat tied.txt)"
near tied_one tied 10
"$plimsoll" export tied --step 6 --to exported_tied >export.txt 2>&1 || fail "$(cat export.txt)"
cmp exported_tied/model.safetensors tied/model/model.safetensors || fail "the stages' tables differ"
train 3 tied_whole --set model.tied=true --set parallel.pipeline=3
train 3 tied_resumed --set model.tied=true --set parallel.pipeline=3 --set train.stop_after=3
train 3 tied_resumed --set model.tied=true --set parallel.pipeline=3 --resume auto
same tied_whole tied_resumed
"$plimsoll" plan run.yaml --set model.tied=true --set parallel.pipeline=3 --check >check.txt ||
  fail "$(cat check.txt)"
grep -q 'checked 3 ranks: 4 collectives in .* and 16 sends' check.txt || fail "$(cat check.txt)"

# The rest of the model may be frozen, with adapters or without: each stage trains what it has.
frozen=(--set 'train.freeze=[embed.*, "*.bias"]')
train 1 frozen_one "${frozen[@]}"
train 3 frozen "${frozen[@]}" --set parallel.pipeline=3
same frozen_one frozen
mv run.yaml whole.yaml
sed 's|^model: .*|model: {init_from: one/model, sequence: 16, dropout: 0.1}|' whole.yaml >run.yaml
adapted=(--set lora.rank=2 --set 'lora.targets=[all-linear]')
train 1 adapted_one "${adapted[@]}"
train 3 adapted "${adapted[@]}" --set parallel.pipeline=3 --set train.stop_after=3
train 2 adapted "${adapted[@]}" --set parallel.pipeline=2 --resume auto
grep -q 'continues after 3 steps' adapted.txt || fail "$(cat adapted.txt)"
cmp <(numbers adapted_one) <(numbers adapted) || fail "figures of adapters"
cmp adapted_one/adapter/adapter_model.safetensors adapted/adapter/adapter_model.safetensors || fail "other adapters"
mv whole.yaml run.yaml

# The calls of all ranks meet.
"$plimsoll" plan run.yaml --set parallel.pipeline=3 --check >check.txt || fail "$(cat check.txt)"
grep -q 'checked 3 ranks: .* and 16 sends between them meet' check.txt || fail "$(cat check.txt)"

"$plimsoll" plan run.yaml --set parallel.data=2 --set parallel.pipeline=3 --check >check.txt || fail "$(cat check.txt)"
grep -q 'checked 6 ranks' check.txt || fail "$(cat check.txt)"

# A classifier's steps and evaluations tell its metrics, too.
printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n' >vocab.txt
for i in {0..11}; do echo "{\"text\": \"a b c a a c\", \"label\": $((i * i % 3))}"; done >texts.jsonl
cp run.yaml language.yaml
cat >run.yaml <<'END'
model: {family: bert, layers: 3, width: 32, heads: 2, sequence: 16, task: classification, classes: 3}
data: {source: labelled_text, train: texts.jsonl, eval: texts.jsonl, tokenizer: vocab.txt}
train: {steps: 4, micro_batch: 2, accumulate: 4, eval_every: 2, log_every: 1, threads: 1}
schedule: {warmup: 1}
memory: {summary: false}
device: cpu
END
train 1 classifier
train 3 staged_classifier --set parallel.pipeline=3
told() { grep -oE '"(loss|grad_norm|accuracy|eval_[a-z0-9]*)": *[^,}]*' "$1/metrics.jsonl"; }
[ "$(told classifier | grep -c accuracy)" -gt 4 ] || fail "no accuracy: $(cat classifier/metrics.jsonl)"
cmp <(told classifier) <(told staged_classifier) || fail "figures of a classifier"
cmp classifier/model/model.safetensors staged_classifier/model/model.safetensors || fail "weights of a classifier"
mv language.yaml run.yaml

# A study starts as many ranks as a row has stages.
cat >study.yaml <<END
base: run.yaml
axes: {parallel.pipeline: [1, 2, 6]}
measure: {warmup: 1, steps: 3, repeat_unsteady: false}
launch: {mpirun: "$mpirun_sh {ranks}"}
END
"$plimsoll" ablate study.yaml >study.txt 2>&1 || fail "$(cat study.txt)"
grep -qE '^pipeline=2 +done +2 ' study.txt || fail "$(cat study.txt)"
grep -q '^pipeline=6: parallel.pipeline: 6 stages need a block each' study.txt || fail "$(cat study.txt)"
python3 - <<'END' || fail "a study's losses: $(cat runs/study/study.csv)"
import csv

rows = {row["name"]: row for row in csv.DictReader(open("runs/study/study.csv"))}
one, two = rows["pipeline=1"], rows["pipeline=2"]
assert two["status"] == "done" and all(two[key] == one[key] != "" for key in ("loss", "eval_loss"))
END

# What stages cannot do is refused by its key.
refused() {  # MESSAGE SETTING…
  local message=$1
  shift
  ! "$mpirun_sh" 2 "$plimsoll" train run.yaml --set parallel.pipeline=2 --set run.dir=refused "$@" >refused.txt 2>&1 ||
    fail "$* is not refused"
  grep -q -- "$message" refused.txt || fail "$*: $(cat refused.txt)"
}
refused 'parallel.zero: with pipeline stages' --set parallel.data=1 --set parallel.zero=2
refused 'optimizer.ema: with pipeline stages' --set optimizer.ema=0.9
refused 'train.freeze: leaves the first of 2 pipeline stages nothing' --set parallel.stages=[1,4] --set 'train.freeze=["embed.*", "block.0.*"]'
refused 'memory.budget' --set checkpointing.policy=auto
[ ! -e refused ] || fail "refused runs leave $(ls -A refused)"
refused 'rank 1: --set: memory.budget: .* the plan of stage 1 needs' --set parallel.stages=[1,4] --set memory.budget=800KiB
grep -q 'exit code 3' refused.txt || fail "$(cat refused.txt)"
[ ! -e refused ] || fail "a run that its second stage refuses leaves $(ls -A refused)"
refused 'the smallest plan of stage 1 needs .* enough for every stage' --set checkpointing.policy=auto --set memory.budget=50KiB
refused 'train.micro_batch: with pipeline stages' --set train.micro_batch=auto --set train.global_batch=8
refused 'stages need a block each' --set model.layers=1
refused 'but the model has 5' --set parallel.stages=[2,2]
