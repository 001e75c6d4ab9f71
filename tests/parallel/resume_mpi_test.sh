#!/usr/bin/env bash
# usage: resume_mpi_test.sh MPIRUN.SH PLIMSOLL
#
# `plimsoll train --resume` under mpirun: on the same ranks the bits of an uninterrupted run, on
# other ranks its losses, of weights and of averages; a signal to one rank stops all; hosts without a common folder get an
# error.
source tests/parallel/ranks.sh

cat >run.yaml <<'END'
model: {family: gpt2, layers: 2, width: 32, heads: 2, vocab: 96, sequence: 16}
data: {synthetic: true}
train: {steps: 9, micro_batch: 4, global_batch: 16, eval_every: 3, eval_sequences: 16, log_every: 1, threads: 1}
schedule: {warmup: 1}
optimizer: {eps: 1e-5, ema: 0.8}
memory: {summary: false}
save: {every: 4, model: false}
device: cpu
END

numbers() { grep -oE '"(step|loss|eval_loss|eval_ema_loss|grad_norm)": *[0-9.e+-]*' "$1/metrics.jsonl"; }

# The same ranks.
for mesh in "data=2 zero=0" "data=2 zero=1 async=true" "data=2 zero=2" "data=2 zero=3 async=true" \
  "data=2 zero=1 freeze=block.0.*" "data=2 zero=2 freeze=block.0.*" "data=2 zero=3 freeze=block.0.*" \
  "tensor=2 sequence=true" "tensor=2 data=2 zero=1" "tensor=2 data=2 zero=3" "tensor=2 data=2 zero=0 async=true"; do
  sets=() ranks=1
  for set in $mesh; do
    case $set in
      async=*) sets+=(--set "save.$set") ;;
      freeze=*) sets+=(--set "train.freeze=[${set#*=}]") ;;
      *) sets+=(--set "parallel.$set") ;;
    esac
    case $set in data=2 | tensor=2) ranks=$((2 * ranks)) ;; esac
  done
  rm -rf whole stopped
  train $ranks whole "${sets[@]}" --set amp.dtype=bf16 --set save.model=true
  train $ranks stopped "${sets[@]}" --set amp.dtype=bf16 --set train.stop_after=6
  train $ranks stopped "${sets[@]}" --set amp.dtype=bf16 --resume auto
  cmp <(numbers whole) <(numbers stopped) || fail "$mesh: other bits"
  "$plimsoll" inspect stopped >inspect.txt || fail "$(cat inspect.txt)"
  grep -q '^stopped/snapshots/step-000000009: .*, whole' inspect.txt || fail "$(cat inspect.txt)"
  # One process combines the parts that all ranks wrote.
  "$plimsoll" export stopped --step 9 --to exported --overwrite >export.txt 2>&1 || fail "$(cat export.txt)"
  cmp whole/model/model.safetensors exported/model.safetensors || fail "$mesh: other weights"
  "$plimsoll" export stopped --ema --step 9 --to exported --overwrite >export.txt 2>&1 || fail "$(cat export.txt)"
  cmp whole/model_ema/model.safetensors exported/model.safetensors || fail "$mesh: other averages"
done

# Other ranks.
rm -rf whole
train 1 whole
for change in "4 tensor=2:zero=2|1" "4 tensor=2:zero=1|2 zero=3" "2 zero=3|4 tensor=2:sequence=true" "1|2 tensor=2" \
  "2 tensor=2|2 zero=1" "4 zero=1|2 zero=2"; do
  rm -rf moved
  before=${change%|*} after=${change#*|}
  read -r from from_sets <<<"$before "
  read -r to to_sets <<<"$after "
  arguments() { for set in ${1//:/ }; do printf -- '--set\nparallel.%s\n' "$set"; done; }
  mapfile -t from_sets < <(arguments "$from_sets")
  mapfile -t to_sets < <(arguments "$to_sets")
  train "$from" moved "${from_sets[@]}" --set train.stop_after=6
  train "$to" moved "${to_sets[@]}" --resume auto
  grep -q 'continues after 6 steps' moved.txt || fail "$(cat moved.txt)"
  near whole moved 17
done

# Weights, carried gradients and state on the host, which takes tensors from 256 KiB on: the bits of the device; stopped, too;
# and on other ranks the losses.
wide=(--set model.width=256 --set model.layers=1 --set train.micro_batch=2)
host=(--set memory.weights=host --set memory.gradients=host --set optimizer.place=host --set save.async=true)
for zero in 1 3; do
  rm -rf whole stopped moved
  train 2 whole "${wide[@]}" --set parallel.zero=$zero
  train 2 stopped "${wide[@]}" "${host[@]}" --set parallel.zero=$zero --set train.stop_after=6
  cp -r stopped moved
  train 2 stopped "${wide[@]}" "${host[@]}" --set parallel.zero=$zero --resume auto
  cmp <(numbers whole) <(numbers stopped) || fail "on the host, zero=$zero: other bits"
  train 4 moved "${wide[@]}" "${host[@]}" --set parallel.zero=$((4 - zero)) --resume auto
  near whole moved 17
done

# 8-bit state has other blocks on other tensor ranks: some are quantized again, which rounds again.
eight_bits=(--set optimizer.state_dtype=int8 --set model.width=64 --set model.heads=4)
rm -rf whole
train 1 whole "${eight_bits[@]}"
for change in "1 2" "2 1" "2 4"; do
  rm -rf moved
  read -r from to <<<"$change"
  train "$from" moved "${eight_bits[@]}" --set parallel.tensor="$from" --set train.stop_after=6
  train "$to" moved "${eight_bits[@]}" --set parallel.tensor="$to" --resume auto
  grep -q 'continues after 6 steps' moved.txt || fail "$(cat moved.txt)"
  near whole moved 17 1e-4
done

# A signal that reaches one rank stops all ranks with a snapshot, or, when one of them cannot write
# its part, with the reason.
start() {  # RUN
  PLIMSOLL_MPI_SECONDS=100 "$mpirun_sh" 2 "$plimsoll" train run.yaml --set train.steps=1000000 --set run.dir="$1" \
    --set train.eval_every=0 --set save.every=0 --set parallel.zero=1 >"$1.txt" 2>&1 &
  job=$!
  for ((i = 0; i < 400; ++i)); do
    ! grep -qs '"step": *20,' "$1/metrics.jsonl" || break
    sleep 0.1
  done
  for pid in $(pgrep -f "^$plimsoll train run.yaml.*run.dir=$1"); do
    ! tr '\0' '\n' <"/proc/$pid/environ" | grep -q '^OMPI_COMM_WORLD_RANK=1$' || rank1=$pid
  done
}
start signalled
kill -TERM "$rank1"
code=0
wait $job || code=$?
[ "$code" -eq 4 ] || fail "exit code $code: $(cat signalled.txt)"
snapshot=$(printf 'signalled/snapshots/step-%09d' "$(wc -l <signalled/metrics.jsonl)")
[ -e "$snapshot" ] || fail "no $snapshot: $(ls signalled/snapshots)"
"$plimsoll" inspect signalled >inspect.txt || fail "$(cat inspect.txt)"
grep -q '"reason": *"SIGTERM"' signalled/run.json || fail "no signal's name: $(cat signalled/run.json)"
grep -q '^\[0\] SIGTERM: stopping after' signalled.txt || fail "$(cat signalled.txt)"

start full
prlimit --pid "$rank1" --fsize=20000:20000
kill -TERM "$rank1"
code=0
wait $job || code=$?
[ "$code" -eq 1 ] || fail "exit code $code: $(cat full.txt)"
grep -q 'no snapshot of step .*: rank 1: full/snapshots/step-.*.partial/rank-00001.safetensors: cannot be written' full.txt ||
  fail "$(cat full.txt)"
[ -z "$(ls full/snapshots)" ] || fail "$(ls full/snapshots)"

# Ranks in separate folders, as on hosts without a common file system.
mkdir -p host0/run host1/run
# shellcheck disable=SC2016
if "$mpirun_sh" 2 bash -c 'cd host$OMPI_COMM_WORLD_RANK && "$0" train ../run.yaml --set run.dir=run' "$plimsoll" \
  >apart.txt 2>&1; then fail "ranks without a common folder run"; fi
grep -q 'rank 1: run: this rank does not see what rank 0 writes there' apart.txt || fail "$(cat apart.txt)"
echo "passed"
