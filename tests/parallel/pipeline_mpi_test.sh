#!/usr/bin/env bash
# usage: pipeline_mpi_test.sh MPIRUN.SH PLIMSOLL
#
# `plimsoll train` with pipeline stages: the files of one rank that accumulates as many micro-steps,
# to the bit; snapshots that go on with other stages; the proof of `plan --check`; and refusals.
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

# Each parameter is saved once, and goes on with other stages, and with none.
for change in "1|3" "3|1" "2|5"; do
  before=${change%|*} after=${change#*|}
  rm -rf moved
  train "$before" moved --set parallel.pipeline="$before" --set train.stop_after=3
  train "$after" moved --set parallel.pipeline="$after" --resume auto
  grep -q 'goes on after 3 steps' moved.txt || fail "$(cat moved.txt)"
  same one moved
done
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

# The calls of all ranks meet.
"$plimsoll" plan run.yaml --set parallel.pipeline=3 --check >check.txt || fail "$(cat check.txt)"
grep -q 'checked 3 ranks: .* and 16 sends between them meet' check.txt || fail "$(cat check.txt)"

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
refused 'memory.budget' --set checkpointing.policy=auto
refused 'the smallest plan of stage 0 needs' --set checkpointing.policy=auto --set memory.budget=50KiB
refused 'train.micro_batch: with pipeline stages' --set train.micro_batch=auto --set train.global_batch=8
refused "parallel.pipeline: .*share 'embed.token.weight'.*model.tied: false" --set model.tied=true
refused 'stages need a block each' --set model.layers=1
refused 'but the model has 5' --set parallel.stages=[2,2]
