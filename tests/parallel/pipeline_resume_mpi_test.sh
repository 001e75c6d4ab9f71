#!/usr/bin/env bash
# usage: pipeline_resume_mpi_test.sh MPIRUN.SH PLIMSOLL
#
# Snapshots of pipeline stages: each tensor is in them once, with the bits that one rank saves; runs
# go on with other stages, next to data or tensor ranks, on one rank, and back on stages. With 8-bit
# moments, remainders of 16-bit weights, or a loss scale that has moved.
source tests/parallel/ranks.sh

cat >run.yaml <<'YAML'
model: {family: gpt2, layers: 4, width: 64, heads: 4, vocab: 96, sequence: 16, tied: false, dropout: 0.1}
data: {synthetic: true}
train: {steps: 6, micro_batch: 2, global_batch: 8, eval_every: 1, eval_sequences: 8, log_every: 1, threads: 1}
schedule: {warmup: 1}
optimizer: {state_dtype: int8, eps: 1e-5}
amp: {dtype: bf16, loss_scale: dynamic, init_scale: 1024, growth_interval: 2}
memory: {summary: false}
save: {every: 2, on_exit: true, keep: 9}
log: {csv: false, tensorboard: false, report: false}
device: cpu
YAML

numbers() { grep -oE '"(step|loss|eval_loss|grad_norm|loss_scale|skipped)": *[^,}]*' "$1/metrics.jsonl"; }
same() {  # RUN RUN
  [ "$(numbers "$1" | wc -l)" -gt 30 ] || fail "$1 has no figures"
  cmp <(numbers "$1") <(numbers "$2") || fail "figures of $1 and $2"
  cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "weights of $1 and $2"
}

# Of a snapshot: each tensor with its type, shape and checksum, whichever rank has it.
tensors() {  # RUN STEP
  grep '^{"name":' "$1/snapshots/step-00000000$2/manifest.json" | sed -E 's/"shard":[0-9]+,//; s/[],]+$//' | sort
}
same_tensors() {  # RUN RUN STEP
  tensors "$1" "$3" >of_one.txt
  tensors "$2" "$3" >of_other.txt
  [ -z "$(grep -o '^{"name":"[^"]*"' of_other.txt | uniq -d)" ] || fail "$2 has a tensor twice: $(cat of_other.txt)"
  cmp of_one.txt of_other.txt || fail "tensors of step $3: $(diff of_one.txt of_other.txt)"
}

# As it goes on, each time until a step, with so many stages and other ranks.
goes_on() {  # RUN "STEP STAGES[ SETTING…]"…
  local run=$1 leg stop stages ranks set before=0 sets
  shift
  rm -rf "$run"
  for leg in "$@"; do
    sets=() ranks=1
    read -r stop stages leg <<<"$leg"
    for set in $leg; do
      sets+=(--set "parallel.$set")
      case $set in data=2 | tensor=2) ranks=2 ;; esac
    done
    train $((ranks * stages)) "$run" "${both[@]}" "${sets[@]}" --set parallel.pipeline="$stages" \
      --set train.stop_after="$stop" --resume auto
    [ "$before" = 0 ] || grep -q "continues after $before steps" "$run.txt" || fail "$(cat "$run.txt")"
    before=$stop
  done
}

# Where ranks are stages only, to the bit. In fp16 the first step overflows, and is skipped.
for both in "amp.dtype=bf16" "amp.dtype=fp16 amp.init_scale=1e9 amp.backoff_factor=1e-4"; do
  name=${both%% *} remainders=
  [ "$name" != amp.dtype=bf16 ] || remainders=I16
  mapfile -t both < <(for set in $both; do printf -- '--set\n%s\n' "$set"; done)
  rm -rf one
  train 1 one "${both[@]}"
  [ "$(grep -oE '"loss_scale":[^,}]*' one/metrics.jsonl | sort -u | wc -l)" -gt 2 ] || fail "$name: the loss scale stays"
  tensors one 2 >of_one.txt
  for type in U8 $remainders; do
    grep -q "\"dtype\":\"$type\"" of_one.txt || fail "$name: no tensors of $type"
  done
  goes_on stages "2 4" "3 1" "4 4" "5 3" "6 4"
  same one stages
  for step in 2 4 6; do same_tensors one stages $step; done
done

# Next to data ranks, whose dropout differs, and to tensor ranks, which have other blocks of 8 bits.
both=(--set model.dropout=0)
rm -rf one
train 1 one "${both[@]}"
for ranks in "data=2" "data=2 zero=1" "tensor=2"; do
  goes_on mesh "2 4" "4 2 $ranks" "6 4"
  near one mesh 13 1e-4
done
"$plimsoll" inspect mesh/snapshots/step-000000004 >inspect.txt || fail "$(cat inspect.txt)"
grep -q '^ranks: 2 pipeline × 1 data × 2 tensor, ZeRO 0$' inspect.txt || fail "$(head -5 inspect.txt)"
echo "passed"
