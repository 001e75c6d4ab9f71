#!/usr/bin/env bash
# usage: auto_layout_mpi_test.sh MPIRUN.SH PLIMSOLL
#
# `parallel: auto`: the ranks lay themselves out within the budget, as `plimsoll plan` says, to the
# bits of the same layout given by hand; a resumed run keeps its layout on as many ranks.
source tests/parallel/ranks.sh

cat >run.yaml <<'END'
model: {family: llama, layers: 4, width: 64, heads: 4, vocab: 256, sequence: 32}
data: {synthetic: true}
train: {steps: 6, micro_batch: 4, global_batch: 16, eval_every: 3, eval_sequences: 32, log_every: 1, threads: 1}
schedule: {warmup: 1}
memory: {budget: 64MiB, calibrate: false}
parallel: auto
save: {every: 3}
device: cpu
END

choice() { grep -o "\"$2\": *[a-z0-9]*" "$1/plan.json" | head -n 1 | sed 's/.*: *//'; }
arena() { grep -o '"arena_bytes": *[0-9]*' "$1" | head -n 1 | grep -o '[0-9]*$'; }
numbers() { grep -oE '"(step|loss|eval_loss|grad_norm)": *[0-9.e+-]*' "$1/metrics.jsonl"; }

# Where there is one rank nothing is chosen: a file with `parallel: auto` needs no budget then.
train 1 alone --set memory.budget=null

# A wide budget, and one that no weights and moments fit that each rank has for itself.
for budget in 64MiB 2500KiB; do
  run=within$budget
  train 4 $run --set memory.budget=$budget
  near alone $run 9
  grep -qE "chosen within memory.budget: [124] data × [124] tensor ranks" <(tr -d '\n' <$run.txt) || fail "$(cat $run.txt)"
  by_hand=(--set parallel.data="$(choice $run parallel.data)" --set parallel.tensor="$(choice $run parallel.tensor)"
    --set parallel.zero="$(choice $run parallel.zero)" --set parallel.sequence="$(choice $run parallel.sequence)")
  train 4 hand$budget --set memory.budget=null "${by_hand[@]}"
  cmp <(numbers $run) <(numbers hand$budget) || fail "other bits than ${by_hand[*]}"
  cmp $run/model/model.safetensors hand$budget/model/model.safetensors || fail "other weights than ${by_hand[*]}"
  [ "$(arena $run/plan.json)" = "$(arena hand$budget/plan.json)" ] || fail "another plan than ${by_hand[*]}"
  # The plan of started ranks, and the table of all layouts, say the same.
  "$mpirun_sh" 4 "$plimsoll" plan run.yaml --json --set memory.budget=$budget >plan.json
  [ "$(arena plan.json)" = "$(arena $run/plan.json)" ] || fail "planned: $(arena plan.json)"
done
[ "$(arena within2500KiB/plan.json)" -lt "$(arena within64MiB/plan.json)" ] || fail "the budget changes nothing"
"$plimsoll" plan run.yaml --ranks 4 >table.txt
[ "$(grep -cE '^[-* ] +[124] +[124] +[0-3]' table.txt)" = 9 ] || fail "$(cat table.txt)"

# Resumed on as many ranks a run keeps its layout, even where another one would be chosen now; on
# other ranks it chooses anew.
train 4 stopped --set train.stop_after=3 --set memory.budget=2500KiB
train 4 stopped --resume auto
grep -q 'parallel.tensor: .*, as the run chose before its snapshot' stopped.txt || fail "$(cat stopped.txt)"
cmp <(numbers within2500KiB) <(numbers stopped) || fail "other bits after resuming"
cp -r within64MiB moved
train 2 moved --resume auto --set train.steps=8 --set train.stop_after=8
grep -qE "chosen within memory.budget: [12] data × [12] tensor ranks" <(tr -d '\n' <moved.txt) || fail "$(cat moved.txt)"

# What cannot be chosen.
refused() {  # MESSAGE ARGUMENT…
  local message=$1
  shift
  if "$mpirun_sh" 4 "$plimsoll" "$@" >refused.txt 2>&1; then fail "$* runs"; fi
  grep -q "$message" refused.txt || fail "$(cat refused.txt)"
  [ ! -e wrong ] || fail "$* leaves a folder"
}
wrong=(run.yaml --set run.dir=wrong)
refused 'run.yaml:6: parallel.tensor: auto deals out a batch whose size must be known; set train.global_batch' \
  train "${wrong[@]}" --set train.global_batch=null
refused 'run.yaml:6: parallel.tensor: auto chooses what is fastest within memory.budget, which is not set' \
  train "${wrong[@]}" --set memory.budget=null
refused 'memory.budget: .* is less than the parameters alone (290 KiB' train "${wrong[@]}" --set memory.budget=100KiB
cat >images.yaml <<'END'
model: {family: resnet, depth: 8, image_size: 8, channels: 1, classes: 10}
data: {source: synthetic_images}
train: {micro_batch: 4, global_batch: 16, threads: 1}
memory: {budget: 64MiB}
device: cpu
END
refused 'parallel.tensor: auto would choose the mathematics, too' plan images.yaml --set parallel=auto
"$mpirun_sh" 4 "$plimsoll" plan images.yaml --set parallel.zero=auto >stage.txt || fail "$(cat stage.txt)"
grep -qE 'chosen: ZeRO [0-3]' stage.txt || fail "$(cat stage.txt)"
refused 'run.yaml:6: parallel.tensor: auto has an answer for one budget' plan run.yaml --sweep 3
refused 'train.global_batch: 15 sequences do not spread' train "${wrong[@]}" \
  --set train.global_batch=15 --set model.width=48 --set model.heads=3
