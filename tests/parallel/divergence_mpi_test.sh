#!/usr/bin/env bash
# usage: divergence_mpi_test.sh MPIRUN.SH PLIMSOLL
#
# An outlier batch under mpirun: all ranks skip its step, or go back, together; the losses are those
# of one rank, and a resumed run has the bits of an uninterrupted one.
source tests/parallel/ranks.sh

# 64 tokens a step: the alphabet again and again, except in step 20.
awk 'BEGIN {
  srand(3)
  for (i = 0; i < 64 * 60; ++i)
    printf "%c", int(i / 64) == 20 ? 33 + int(30 * rand()) : 97 + i % 26
}' >text
cat >run.yaml <<'YAML'
model: {family: gpt2, layers: 2, width: 32, heads: 2, sequence: 16}
data: {train: text, format: text, tokenizer: byte, order: consecutive}
train: {steps: 26, micro_batch: 1, global_batch: 4, eval_every: 0, log_every: 1, threads: 1}
optimizer: {lr: 1e-2, eps: 1e-5}
schedule: {name: constant, warmup: 0}
memory: {summary: false}
log: {tensorboard: false, report: false}
save: {every: 5, model: false}
divergence: {spike: 6, window: 8}
device: cpu
YAML

numbers() { grep -oE '"(step|loss|lr|loss_limit|skipped|rollback|diverged)": *("[^"]*"|[0-9.e+-]*)' "$1/metrics.jsonl"; }

for action in skip rollback; do
  rm -rf alone
  train 1 alone --set divergence.action=$action
  case $action in
    skip) meshes=("data=2 zero=0" "data=2 zero=3" "tensor=2 sequence=true") ;;
    rollback) meshes=("data=2 zero=1" "tensor=2") ;;
  esac
  for mesh in "${meshes[@]}"; do
    sets=(--set divergence.action=$action)
    for set in $mesh; do sets+=(--set "parallel.$set"); done
    rm -rf whole stopped
    train 2 whole "${sets[@]}"
    case $action in
      skip) grep -q '"step":20,.*"diverged":"step 20: .*its update was skipped' whole/metrics.jsonl || fail "$mesh: no skip" ;;
      rollback) grep -q '"step":15,"rollback":1,' whole/metrics.jsonl || fail "$mesh: no rollback" ;;
    esac
    near alone whole 26 2e-4
    train 2 stopped "${sets[@]}" --set train.stop_after=22
    train 2 stopped "${sets[@]}" --resume auto
    cmp <(numbers whole) <(numbers stopped) || fail "$action, $mesh: other bits"
  done
done
echo "passed"
