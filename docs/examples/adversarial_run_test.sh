#!/usr/bin/env bash
# usage: adversarial_run_test.sh MPIRUN.SH PLIMSOLL_WITH_EXAMPLES ADVERSARIAL.YAML
# Two networks, two losses and two optimizers, trained from a run file with every technique: what keeps numerics keeps
# every bit of losses and weights, the rest comes near.
set -euo pipefail
mpirun_sh=$PWD/$1 plimsoll=$PWD/$2 example=$PWD/$3
cd "${TEST_TMPDIR:?}"
cp "$example" run.yaml
common=(--set train.steps=40 --set train.eval_every=20 --set log.tensorboard=false --set log.report=false --set train.threads=1 --set device=cpu)

fail() {
  echo "FAILED: $*"
  exit 1
}
train() {  # DIRECTORY ARGUMENT…
  local dir=$1
  shift
  "$plimsoll" train run.yaml "${common[@]}" --set run.dir="$dir" "$@" >"$dir.txt" 2>&1 || fail "$dir: $(cat "$dir.txt")"
}
losses() { grep -o '"[a-z]*\.loss": *[0-9.e+-]*' "$1/metrics.jsonl" | sed 's/.*: *//'; }
same_bits() {
  [ "$(losses "$1" | wc -l)" = 80 ] || fail "$1 has $(losses "$1" | wc -l) losses, not 2 in each of 40 steps"
  cmp <(losses "$1") <(losses "$2") || fail "losses of $1 and $2"
  cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "weights of $1 and $2"
}
near() {  # RUN RUN TOLERANCE
  [ "$(losses "$2" | wc -l)" = 80 ] || fail "$2 has $(losses "$2" | wc -l) losses"
  paste <(losses "$1") <(losses "$2") | awk -v most="$3" '
    { d = $1 - $2; if (d < 0) d = -d; if (d > most) { print "loss", NR, $1, $2; bad = 1 } }
    END { exit bad }' || fail "losses of $1 and $2"
}
arena() { grep -o '"arena_bytes": *[0-9]*' "$1/plan.json" | head -n 1 | grep -o '[0-9]*$'; }

train plain --set save.every=20 --set save.keep=0
grep -q 'critic' plain.txt && grep -q 'generator' plain.txt || fail "progress names no objective: $(cat plain.txt)"

# Evaluations on points that training does not see.
evaluations() { grep -o '"eval_[a-z_.]*": *[0-9][0-9.e+-]*' "$1/metrics.jsonl"; }
[ "$(evaluations plain | grep -c critic.loss)" = 3 ] || fail "plain evaluates: $(evaluations plain)"
grep -q 'held-out generator.distance' plain.txt || fail "the closing lines name no best evaluation: $(cat plain.txt)"
grep -q '"best_monitored_step"' plain/summary.json || fail "$(cat plain/summary.json)"
"$plimsoll" eval plain --json >eval.json 2>eval.txt || fail "$(cat eval.txt)"
python3 - <<'END' || fail "eval: $(cat eval.json)"
import json
said = json.load(open("eval.json"))
rows = [row for row in map(json.loads, open("plain/metrics.jsonl")) if "eval_critic.loss" in row]
for name in ("loss", "generator.loss", "critic.accuracy", "generator.distance"):
    assert abs(said[name] - rows[-1]["eval_" + name]) <= 1e-6, name
assert said["targets"] == 64 and said["batches"] == 4, said
END
"$plimsoll" eval plain >eval.txt 2>&1 || fail "$(cat eval.txt)"
grep -q '^64 targets in 4 batches of 16' eval.txt || fail "$(cat eval.txt)"

# Snapshots go on to the bit.
train resumed --set save.every=20 --set save.keep=0 --set train.stop_after=20
"$plimsoll" train run.yaml "${common[@]}" --set run.dir=resumed --set save.every=20 --set save.keep=0 --resume auto \
  >resumed2.txt 2>&1 || fail "$(cat resumed2.txt)"
same_bits plain resumed

# What is kept of activations changes no bit.
for policy in block every selective; do
  train $policy --set checkpointing.policy=$policy --set checkpointing.recompute=activations
  same_bits plain $policy
done

# Within a budget: what the smallest policy leaves, and a little more.
smallest=$(arena block)
for policy in every selective; do
  [ "$(arena $policy)" -ge "$smallest" ] || smallest=$(arena $policy)
done
train budget --set checkpointing.policy=auto --set memory.budget="$smallest" --set debug.check_arena=true
same_bits plain budget
[ "$(arena budget)" -le "$smallest" ] || fail "arena $(arena budget) of $smallest bytes"
grep -q 'within memory.budget' budget.txt || fail "nothing was chosen: $(cat budget.txt)"

# Precision, accumulation, ranks.
train bf16 --set amp.dtype=bf16
near plain bf16 0.2
train fp16 --set amp.dtype=fp16
near plain fp16 0.2
train accumulated --set train.micro_batch=8 --set train.accumulate=2
near plain accumulated 1e-3
"$mpirun_sh" 2 "$plimsoll" train run.yaml "${common[@]}" --set run.dir=ranks --set train.global_batch=16 >ranks.txt ||
  fail "$(cat ranks.txt)"
near plain ranks 1e-3
paste <(evaluations plain) <(evaluations ranks) | tr '":' '  ' | awk '
  { d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || d > 1e-3) { print; bad = 1 } } END { exit bad || NR == 0 }' ||
  fail "evaluations of plain and ranks"

# Mistakes are told with their place.
refused() {  # FILE TEXT
  ! "$plimsoll" train "$1" "${common[@]}" --set run.dir=none >refused.txt 2>&1 || fail "$1 trains"
  grep -qF "$2" refused.txt || fail "$1: $(cat refused.txt)"
}
sed 's/generator:/generater:/' run.yaml >other.yaml
refused other.yaml 'other.yaml:9: objectives.generater: the model has no such objective, only critic, generator'
sed 's/lr: 2e-2/lrr: 2e-2/' run.yaml >typo.yaml
refused typo.yaml 'typo.yaml:9: optimizer.lrr: unknown key, did you mean optimizer.lr?'
sed 's/x: 2,/z: 2,/' run.yaml >unknown.yaml
refused unknown.yaml 'unknown.yaml:3: data.z: unknown key'
! "$plimsoll" plan run.yaml --set train.monitor=distance >refused.txt 2>&1 || fail "plans with no such metric"
grep -qF "train.monitor: 'distance' is no metric of this model" refused.txt || fail "$(cat refused.txt)"
sed 's/held_out: 64/held_out: 9/' run.yaml >few.yaml
refused few.yaml 'few.yaml:3: data.source: 9 held-out samples do not fill the 16 of a batch on all ranks'
sed 's/family: adversarial, width: 32, critic_updates: 2/family: bigram, layers: 1, width: 8, vocab: 9, sequence: 4/' run.yaml |
  sed '/^objectives/,/optimizer: {name: sgd/d' >tokens.yaml
refused tokens.yaml "tokens.yaml:3: data.source: plane_points has nothing for the model's input 'tokens'"
sed 's/width: 32, //' run.yaml >missing.yaml
refused missing.yaml 'missing.yaml:2: model.width: missing; give the width of the layers'
