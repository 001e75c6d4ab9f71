#!/usr/bin/env bash
# usage: preferences_mpi_test.sh MPIRUN.SH PLIMSOLL
#
# Learning from pairs of answers on several ranks: the losses and rewards of one rank; stopped and resumed the same bits;
# one rank evaluates what several have trained; killed with references and without a snapshot it starts anew; references
# that are damaged are refused once.
source tests/parallel/ranks.sh

for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do
  echo "{\"prompt\": \"$i and $((i * i)) is \", \"chosen\": \"$((i + i * i))\", \"rejected\": \"none of it\"}"
done >pairs.jsonl
head -n 5 pairs.jsonl >held_out.jsonl

cat >run.yaml <<'END'
model: {family: llama, layers: 2, width: 32, heads: 2, kv_heads: 2, ffn_width: 64, sequence: 64}
data: {train: pairs.jsonl, eval: held_out.jsonl, tokenizer: byte, packing: none}
preference: {loss: dpo, beta: 0.5, label_smoothing: 0.1, sft_weight: 0.5}
train: {steps: 6, micro_batch: 4, global_batch: 8, eval_every: 3, eval_sequences: 0, log_every: 1, threads: 1}
schedule: {warmup: 1}
optimizer: {eps: 1e-5}
memory: {summary: false, calibrate: false}
log: {tensorboard: false}
device: cpu
END

numbers() { grep -oE '"(step|grad_norm|(eval_)?(loss|rewards_[a-z]+|logps_[a-z]+))": *[0-9.e+-]*' "$1/metrics.jsonl"; }
file=reference_log_probs.safetensors

# Rewards are differences of sums, and have their rounding errors.
cat >compare.py <<'END'
import json, sys

one, several = ([json.loads(line) for line in open(run + "/metrics.jsonl")] for run in sys.argv[1:])
names = ["loss", "logps_chosen", "logps_rejected"]
names += ["rewards_" + of for of in ("chosen", "rejected", "margins", "accuracies")]
compared = 0
for row, other in zip(one, several, strict=True):
    for name in names + ["eval_" + name for name in names]:
        if (name in row) != (name in other):
            sys.exit(f"only one run has {name}: {row}, {other}")
        if name in row:
            compared += 1
            if abs(row[name] - other[name]) > 1e-4 + 1e-5 * abs(row[name]):
                sys.exit(f"step {row['step']}: {name} is {row[name]} on one rank, {other[name]} on several")
if compared != 9 * len(names):
    sys.exit(f"{compared} numbers")
END

# An evaluation by one rank is the run's last one.
cat >compare_eval.py <<'END'
import json, sys

last = [row for row in map(json.loads, open("several/metrics.jsonl")) if "eval_loss" in row][-1]
scores = json.load(open("eval.json"))
if scores["pairs"] != 5:
    sys.exit(f"{scores['pairs']} pairs")
for name in "loss", "rewards_margins", "logps_chosen":
    if abs(scores[name] - last["eval_" + name]) > 1e-4 + 1e-5 * abs(scores[name]):
        sys.exit(f"{name} is {scores[name]} on one rank, {last['eval_' + name]} on several")
END

set_arguments() {  # KEY=VALUE…: sets the array `arguments`
  arguments=()
  for set in "$@"; do arguments+=(--set "$set"); done
}

train 1 one
grep -q '13 pairs in 13 rows of 64 tokens' one.txt || fail "$(cat one.txt)"
for mesh in "2 parallel.zero=0" "2 parallel.zero=1" "2 parallel.zero=2" "2 parallel.zero=3" "2 parallel.tensor=2" \
  "2 parallel.tensor=2 parallel.sequence=true" "4 parallel.tensor=2 parallel.zero=3"; do
  read -ra words <<<"$mesh"
  ranks=${words[0]}
  set_arguments "${words[@]:1}"
  rm -rf several stopped
  train "$ranks" several "${arguments[@]}"
  python3 compare.py one several || fail "$mesh"
  # Stopped and resumed on the same ranks.
  train "$ranks" stopped "${arguments[@]}" --set save.every=3 --set train.stop_after=3
  cp stopped/$file kept
  train "$ranks" stopped "${arguments[@]}" --set save.every=3 --resume auto
  cmp kept stopped/$file || fail "$mesh: other references"
  cmp <(numbers several) <(numbers stopped) || fail "$mesh: other bits"
  cmp several/model/model.safetensors stopped/model/model.safetensors || fail "$mesh: other weights"
  "$plimsoll" eval several --json >eval.json 2>eval.txt || fail "$mesh: $(cat eval.txt)"
  python3 compare_eval.py || fail "$mesh"
done

# On other ranks the references are those that the run began with.
for change in "2 parallel.zero=2|1" "1|2 parallel.tensor=2" "2 parallel.tensor=2|2 parallel.zero=3"; do
  rm -rf moved
  read -ra words <<<"${change%|*}"
  set_arguments "${words[@]:1}"
  train "${words[0]}" moved "${arguments[@]}" --set save.every=3 --set train.stop_after=3
  read -ra words <<<"${change#*|}"
  set_arguments "${words[@]:1}"
  train "${words[0]}" moved "${arguments[@]}" --resume auto
  python3 compare.py one moved || fail "$change"
done

# References that do not fit are refused with one message, and nothing changes.
rm -rf stopped
train 2 stopped --set save.every=3 --set train.stop_after=3
cp stopped/metrics.jsonl before.jsonl
truncate -s -1 stopped/$file
code=0
"$mpirun_sh" 2 "$plimsoll" train run.yaml --set run.dir=stopped --resume auto >damaged.txt 2>&1 || code=$?
[ "$code" -eq 2 ] || fail "exit code $code: $(cat damaged.txt)"
[ "$(grep -c "$file: .*damaged" damaged.txt)" -eq 1 ] || fail "$(cat damaged.txt)"
cmp before.jsonl stopped/metrics.jsonl || fail "a refused run changes its metrics"

# Killed with references, without a snapshot.
"$mpirun_sh" 2 "$plimsoll" train run.yaml --set run.dir=killed --set train.steps=1000000 --set train.eval_every=0 \
  --set save.every=0 >killed.txt 2>&1 &
job=$!
for ((i = 0; i < 400; ++i)); do
  [ ! -e killed/$file ] || break
  sleep 0.05
done
[ -e killed/$file ] || fail "no references: $(cat killed.txt)"
kill -9 "$(pgrep -f "^$plimsoll train run.yaml.*run.dir=killed" | tail -n 1)"
code=0
wait $job || code=$?
[ "$code" -ne 0 ] || fail "a killed rank is no failure"
if "$mpirun_sh" 2 "$plimsoll" train run.yaml --set run.dir=killed --resume auto >again.txt 2>&1; then
  fail "a run is replaced"
fi
grep -q 'without a snapshot to go on from; .*run.overwrite: true' again.txt || fail "$(cat again.txt)"
train 2 killed --set run.overwrite=true --resume auto
rm -rf several
train 2 several
cmp several/$file killed/$file || fail "other references after a kill"
cmp <(numbers several) <(numbers killed) || fail "other bits after a kill"
echo "passed"
