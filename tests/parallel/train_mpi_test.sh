#!/usr/bin/env bash
# usage: train_mpi_test.sh MPIRUN.SH PLIMSOLL
#
# `plimsoll train` under mpirun, started as by users: the losses of one rank, the same files for any
# number of ranks, mistakes reported once, and a killed rank ends all of them.
source tests/parallel/ranks.sh

cat >run.yaml <<'END'
model: {family: gpt2, layers: 2, width: 32, heads: 2, vocab: 96, sequence: 16}
data: {synthetic: true}
train: {steps: 6, micro_batch: 16, global_batch: 16, eval_every: 3, eval_sequences: 32, log_every: 1, threads: 1}
schedule: {warmup: 1}
optimizer: {eps: 1e-5}
device: cpu
END

"$plimsoll" train run.yaml --set run.dir=alone >alone.txt

# The same file works on any number of ranks: the batch is the file's, a micro-step is a rank's part
# of it.
for ranks in 2 4; do
  "$mpirun_sh" $ranks "$plimsoll" train run.yaml --set run.dir=on$ranks >on$ranks.txt || fail "$(cat on$ranks.txt)"
  near alone on$ranks 9
  grep -q '^\[0\] step 5/6' on$ranks.txt || fail "rank 0 says nothing: $(cat on$ranks.txt)"
  ! grep '^\[1\]' on$ranks.txt || fail "rank 1 speaks"
  grep -q 'step 5/6 .*ranks .* ms a step (slowest: [0-9]), .*iB to .*iB' on$ranks.txt || fail "$(cat on$ranks.txt)"
  grep -q '"slowest_rank":[0-9]' on$ranks/metrics.jsonl || fail "no slowest rank"
  grep -q 'step 5/6' on$ranks/rank.1.log || fail "rank 1 has no log"
  [ -s on$ranks/model/model.safetensors ] || fail "no model"
done

# Ranks take the memory that is planned for them; the plan is requested in three ways.
arena() { grep -o '"arena_bytes": *[0-9]*' "$1" | head -n 1 | grep -o '[0-9]*$'; }
for ranks in 2 4; do
  "$plimsoll" plan run.yaml --json --ranks $ranks >meshes$ranks.json
  "$plimsoll" plan run.yaml --json --set parallel.data=$ranks >named$ranks.json
  "$mpirun_sh" $ranks "$plimsoll" plan run.yaml --json >started$ranks.json
  ! grep '^\[1\]' started$ranks.json || fail "rank 1 plans"
  for plan in meshes$ranks.json named$ranks.json started$ranks.json; do
    [ "$(arena $plan)" = "$(arena on$ranks/plan.json)" ] || fail "$plan: $(arena $plan), not $(arena on$ranks/plan.json)"
  done
done

# The largest difference of two models' weights, comparing the files' payloads after their headers.
difference() {
  paste <(payload "$1") <(payload "$2") | awk '
    { d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d }
    END { print NR, most + 0 }'
}
payload() {
  local header
  header=$(od -An -v -tu8 -N8 "$1/model/model.safetensors")
  od -An -v -w4 -tf4 -j $((header + 8)) "$1/model/model.safetensors"
}

# Dividing state among ranks changes neither losses nor the saved model.
for zero in 1 2 3; do
  "$mpirun_sh" 2 "$plimsoll" train run.yaml --set run.dir=zero$zero --set parallel.zero=$zero >zero$zero.txt ||
    fail "$(cat zero$zero.txt)"
  near alone zero$zero 9
  difference alone zero$zero | awk '{ exit !($1 > 20000 && $2 < 1e-6) }' ||
    fail "weights of ZeRO $zero: $(difference alone zero$zero)"
done

# Tensor-parallel ranks with split sequences, and divided state among their data ranks: the losses
# and texts of one rank, and its model in one piece.
bytes=(--set model.vocab=256 --set data.tokenizer=byte --set train.sample_every=6 --set sample.temperature=0
  --set sample.tokens=6 --set sample.prompt=ab)
text() { sed -n 's/^\(\[0\] \)\?\(ab.*\)/\2/p' "$1"; }
"$plimsoll" train run.yaml "${bytes[@]}" --set run.dir=whole >whole.txt
"$plimsoll" generate whole --prompt ab --temperature 0 --tokens 6 >whole.text
for zero in 0 1 2 3; do
  mesh=mesh$zero
  "$mpirun_sh" 4 "$plimsoll" train run.yaml "${bytes[@]}" --set parallel.tensor=2 --set parallel.sequence=true \
    --set parallel.zero=$zero --set run.dir=$mesh >$mesh.txt || fail "$(cat $mesh.txt)"
  near whole $mesh 9
  ! grep '^\[[1-3]\]' $mesh.txt || fail "another rank speaks"
  difference whole $mesh | awk '{ exit !($1 > 20000 && $2 < 1e-6) }' ||
    fail "weights of a mesh, ZeRO $zero: $(difference whole $mesh)"
  "$plimsoll" generate $mesh --prompt ab --temperature 0 --tokens 6 >$mesh.text
  cmp whole.text $mesh.text || fail "the model of ranks that share it writes another text"
  [ -n "$(text $mesh.txt)" ] && [ "$(text $mesh.txt)" = "$(text whole.txt)" ] || fail "another sample: $(cat $mesh.txt)"
done

# Mistakes give the same messages whether ranks are started or planned for.
for command in train plan; do
  if "$mpirun_sh" 3 "$plimsoll" $command run.yaml --set run.dir=wrong >spread.txt 2>&1; then fail "16 sequences on 3 ranks"; fi
  grep -q 'run.yaml:3: train.global_batch: 16 sequences do not spread over 3 data ranks; use 15 or 18' spread.txt ||
    fail "$(cat spread.txt)"
done
if "$plimsoll" plan run.yaml --ranks 3 >spread.txt 2>&1; then fail "16 sequences on 3 ranks"; fi
grep -q 'run.yaml:3: train.global_batch: 16 sequences do not spread over 3 data ranks; use 15 or 18' spread.txt ||
  fail "$(cat spread.txt)"
if "$mpirun_sh" 2 "$plimsoll" train run.yaml --set parallel.data=3 --set train.micro_batch=1 --set train.global_batch=6 \
  --set run.dir=wrong >wrong.txt; then fail "a wrong mesh runs"; fi
grep -q 'need mpirun -np 3, but 2 ranks were started' wrong.txt || fail "$(cat wrong.txt)"
[ ! -e wrong ] || fail "a wrong mesh leaves a folder"
if "$mpirun_sh" 2 bash -c '"$0" train run.yaml --set run.dir=differ --set train.seed=$OMPI_COMM_WORLD_RANK' "$plimsoll" >differ.txt; then
  fail "different configurations run"
fi
grep -q 'rank 1: its program and configuration differ from rank 0' differ.txt || fail "$(cat differ.txt)"

none_left() {  # RUN: within a moment, since a process that was killed takes one to go
  for ((i = 0; i < 50; ++i)); do
    pgrep -f "^$plimsoll train run.yaml.*run.dir=$1" || return 0
    sleep 0.1
  done
  return 1
}

# One rank hangs: the others detect it.
"$mpirun_sh" 2 "$plimsoll" train run.yaml --set train.steps=1000000 --set run.dir=hangs --set train.eval_every=0 \
  --set parallel.timeout=2 >hangs.txt 2>&1 &
job=$!
for ((i = 0; i < 200; ++i)); do
  ! grep -qs '"step": *20,' hangs/metrics.jsonl || break
  sleep 0.1
done
kill -STOP "$(pgrep -f "^$plimsoll train run.yaml.*run.dir=hangs" | tail -n 1)"
started=$SECONDS code=0
wait $job || code=$?
[ "$code" -ne 0 ] || fail "a rank that hangs is no failure"
[ $((SECONDS - started)) -le 10 ] || fail "the others waited for $((SECONDS - started)) s"
grep -q 'rank [01]: parallel.timeout: no progress for 2 seconds, in step' hangs.txt || fail "$(cat hangs.txt)"
none_left hangs || fail "ranks are left"

# One rank is killed in the middle.
"$mpirun_sh" 3 "$plimsoll" train run.yaml --set train.steps=1000000 --set train.global_batch=48 --set run.dir=killed \
  --set train.eval_every=0 >killed.txt 2>&1 &
job=$!
for ((i = 0; i < 200; ++i)); do
  ! grep -qs '"step": *20,' killed/metrics.jsonl || break
  sleep 0.1
done
grep -qs '"step": *20,' killed/metrics.jsonl || fail "no steps: $(cat killed.txt)"
ranks=$(pgrep -f "^$plimsoll train run.yaml.*run.dir=killed" | tail -n 1)
kill -9 "$ranks"
started=$SECONDS code=0
wait $job || code=$?
[ "$code" -ne 0 ] || fail "a killed rank is no failure"
[ $((SECONDS - started)) -le 10 ] || fail "the others went on for $((SECONDS - started)) s"
none_left killed || fail "ranks are left"
echo "passed"
