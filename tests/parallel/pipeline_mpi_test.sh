#!/usr/bin/env bash
# usage: pipeline_mpi_test.sh MPIRUN.SH PLIMSOLL
#
# `plimsoll train` with pipeline stages: the losses, norms and weights of one rank that accumulates
# as many micro-steps, to the bit; next to data and tensor ranks within the order of their sums.
source tests/parallel/ranks.sh

cat >run.yaml <<'END'
model: {family: gpt2, layers: 5, width: 32, heads: 2, vocab: 96, sequence: 16, tied: false, dropout: 0.1}
data: {synthetic: true}
train: {steps: 4, micro_batch: 2, accumulate: 4, eval_every: 2, eval_sequences: 8, log_every: 1, threads: 1}
schedule: {warmup: 1}
device: cpu
END

# The figures of steps and evaluations, and the weights.
numbers() { grep -o '"\(step\|[a-z_]*loss\|grad_norm\|loss_scale\)": *[^,}]*' "$1/metrics.jsonl"; }
same() {  # RUN RUN
  [ -n "$(numbers "$1")" ] || fail "$1 has no figures"
  diff <(numbers "$1") <(numbers "$2") || fail "figures of $1 and $2"
  cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "weights of $1 and $2"
}

# Stages, more micro-batches than stages and fewer, recomputed blocks, one message at a time.
for micro_batches in 1 3 4 7; do
  batch=(--set train.accumulate=$micro_batches)
  train 1 one$micro_batches "${batch[@]}"
  for stages in 2 3 5; do
    run=stages$stages-$micro_batches
    train $stages $run "${batch[@]}" --set parallel.pipeline=$stages
    same one$micro_batches $run
  done
done
