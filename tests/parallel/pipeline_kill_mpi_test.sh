#!/usr/bin/env bash
# usage: pipeline_kill_mpi_test.sh MPIRUN.SH PLIMSOLL
#
# Of three pipeline stages that save after every step, each in turn is killed at any time: all end
# within ten seconds, with an exit code and a message that names the rank, the newest complete
# snapshot still exists, and existing ones are undamaged. In the end the numbers are those of one
# rank that nobody killed.
source tests/parallel/ranks.sh
RANDOM=7

cat >run.yaml <<'YAML'
model: {family: gpt2, layers: 3, width: 64, heads: 2, vocab: 96, sequence: 16, tied: false}
data: {synthetic: true}
train: {steps: 100000, micro_batch: 2, accumulate: 4, eval_every: 0, log_every: 1, threads: 1}
optimizer: {lr: 1e-4}
schedule: {warmup: 1}
memory: {summary: false}
run: {overwrite: true}
save: {every: 1, keep: 2, model: false, on_exit: false}
log: {csv: false, tensorboard: false, report: false}
device: cpu
YAML

newest() {  # the newest step with a snapshot; 0: none
  local name
  name=$(cd run/snapshots 2>/dev/null && printf '%s\n' step-????????? | tail -1)
  name=${name#step-}
  [[ $name =~ ^[0-9]{9}$ ]] || name=0
  echo $((10#$name))
}
ranks_of() { pgrep -f "^$plimsoll train run.yaml.*run.dir=run "; }
of_rank() {  # RANK
  local pid
  for pid in $(ranks_of); do
    ! tr '\0' '\n' <"/proc/$pid/environ" | grep -q "^OMPI_COMM_WORLD_RANK=$1\$" || echo "$pid"
  done
}

complete=0
for stage in 0 1 2; do
  PLIMSOLL_MPI_SECONDS=100 "$mpirun_sh" 3 "$plimsoll" train run.yaml --set run.dir=run --set parallel.pipeline=3 \
    --resume auto >out.txt 2>&1 &
  job=$!
  for ((i = 0; i < 6000; ++i)); do
    [ "$(newest)" -lt $((complete + 2)) ] || break
    kill -0 $job 2>/dev/null || break
    sleep 0.01
  done
  complete=$(newest)
  [ "$complete" -ge 2 ] || fail "it did not go on: $(cat out.txt)"
  pid=$(of_rank $stage)
  [ -n "$pid" ] || fail "no rank $stage: $(cat out.txt)"
  sleep 0.0$((RANDOM % 10))
  kill -KILL "$pid"
  killed=$SECONDS
  while ranks_of >pids.txt; do
    [ $((SECONDS - killed)) -le 10 ] || fail "stage $stage is killed, and others go on: $(cat pids.txt)"
    sleep 0.05
  done
  code=0
  wait $job || code=$?
  [ $code -ne 0 ] || fail "it came to its end before: $(cat out.txt)"
  grep -qE "rank $stage .*signal 9 \(Killed\)" out.txt || fail "nothing says that rank $stage was killed: $(cat out.txt)"
  [ "$(newest)" -ge "$complete" ] || fail "a snapshot is lost: $complete, now $(ls run/snapshots)"
  complete=$(newest)
  for snapshot in run/snapshots/step-?????????; do
    "$plimsoll" inspect "$snapshot" >inspect.txt 2>&1 || fail "$(cat inspect.txt)"
  done
done

stop=$((complete + 3))
train 3 run --set parallel.pipeline=3 --set train.stop_after=$stop --resume auto
grep -q "continues after $complete steps" run.txt || fail "$(cat run.txt)"
train 1 whole --set train.stop_after=$stop --set save.every=0
numbers() { grep -oE '"(step|loss|grad_norm)": *[0-9.e+-]*' "$1/metrics.jsonl"; }
cmp <(numbers whole) <(numbers run) || fail "other bits"
echo "passed: $complete steps saved"
