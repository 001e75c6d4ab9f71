#!/usr/bin/env bash
# usage: kill_mpi_test.sh MPIRUN.SH PLIMSOLL [KILLS]
#
# Four ranks of `plimsoll train`, which save after every step, are killed again and again at any
# time, one of them or all at once. After each kill the newest complete snapshot still exists, and
# all existing ones are undamaged; in the end the numbers are those of an undisturbed run. A
# .partial folder of a step after the newest complete one proves a kill between a save's first write
# and its rename.
source tests/parallel/ranks.sh
kills=${3:-6}
RANDOM=7

cat >run.yaml <<'END'
model: {family: gpt2, layers: 2, width: 256, heads: 2, vocab: 96, sequence: 16}
data: {synthetic: true}
train: {steps: 100000, micro_batch: 2, global_batch: 8, log_every: 1, threads: 1}
optimizer: {lr: 1e-4}
schedule: {warmup: 1}
memory: {summary: false}
run: {overwrite: true}
save: {every: 1, keep: 2, model: false, on_exit: false}
device: cpu
END

newest() {  # [SUFFIX]: the newest step with a snapshot of that name; 0: none
  local name
  name=$(cd run/snapshots 2>/dev/null && printf '%s\n' step-*"${1:-}" | grep -E "^step-[0-9]{9}${1:-}\$" | tail -1)
  name=${name#step-}
  name=${name%"${1:-}"}
  echo $((10#0$name))
}
ranks_of() { pgrep -f "^$plimsoll train run.yaml.*run.dir=run "; }

for way in "async=false zero=0" "async=true zero=0" "async=true zero=1"; do
  read -r async zero <<<"$way"
  sets=(--set "save.$async" --set "parallel.$zero" --set train.eval_every=0)
  rm -rf run
  inside=0 complete=0
  # A busy machine may need more kills to hit as many saves.
  for ((number = 0; number < kills || (2 * inside < number && number < 3 * kills); ++number)); do
    PLIMSOLL_MPI_SECONDS=100 "$mpirun_sh" 4 "$plimsoll" train run.yaml --set run.dir=run "${sets[@]}" --resume auto \
      >out.txt 2>&1 &
    job=$!
    for ((i = 0; i < 3000; ++i)); do
      [ "$(newest)" -le "$complete" ] || break
      kill -0 $job 2>/dev/null || break
      sleep 0.01
    done
    [ "$(newest)" -gt "$complete" ] || fail "it did not go on: $(cat out.txt)"
    complete=$(newest)
    mapfile -t pids < <(ranks_of)
    [ ${#pids[@]} -eq 4 ] || fail "${#pids[@]} ranks: $(cat out.txt)"
    sleep 0.0$((RANDOM % 10))
    # Three of four kills are aimed at a save that has begun.
    if ((number % 4 != 0)); then
      for ((i = 0; i < 1000; ++i)); do
        [ "$(newest .partial)" -le "$(newest)" ] || break
      done
    fi
    if ((number % 2 == 0)); then
      kill -KILL "${pids[@]}" 2>/dev/null || true
    else
      kill -KILL "${pids[RANDOM % 4]}"
    fi
    code=0
    wait $job || code=$?
    [ $code -ne 0 ] || fail "it came to its end before: $(cat out.txt)"
    for ((i = 0; i < 500; ++i)); do
      ranks_of >pids.txt || break
      sleep 0.01
    done
    [ "$(newest)" -ge "$complete" ] || fail "a snapshot is lost: $complete, now $(ls run/snapshots)"
    complete=$(newest)
    [ "$(newest .partial)" -le "$complete" ] || inside=$((inside + 1))
    for snapshot in run/snapshots/step-?????????; do
      "$plimsoll" inspect "$snapshot" >inspect.txt 2>&1 || fail "$(cat inspect.txt)"
    done
  done
  echo "$way: $number kills, $inside of them within a save; $complete steps saved"
  ((2 * inside >= number)) || fail "too few kills within a save"
  stop=$((complete + 3))
  "$mpirun_sh" 4 "$plimsoll" train run.yaml --set run.dir=run "${sets[@]}" --set train.stop_after=$stop --resume auto \
    >out.txt 2>&1 || fail "$(cat out.txt)"
  "$mpirun_sh" 4 "$plimsoll" train run.yaml --set run.dir=whole "${sets[@]}" --set train.stop_after=$stop \
    --set save.every=0 >out.txt 2>&1 || fail "$(cat out.txt)"
  numbers() { grep -oE '"(step|loss|grad_norm)": *[0-9.e+-]*' "$1/metrics.jsonl"; }
  cmp <(numbers whole) <(numbers run) || fail "$way: other bits"
done
echo "passed"
