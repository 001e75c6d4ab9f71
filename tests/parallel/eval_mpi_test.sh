#!/usr/bin/env bash
# usage: eval_mpi_test.sh MPIRUN.SH PLIMSOLL
#
# Held-out losses under mpirun: the same sequences, and so the same losses within 1e-5, for any
# micro-batch and number of ranks; with random tokens, and with examples, whose prompts carry no
# loss.
source tests/parallel/ranks.sh

cat >tokens.yaml <<'END'
model: {family: gpt2, layers: 1, width: 32, heads: 2, vocab: 256, sequence: 16}
data: {synthetic: true}
train: {steps: 2, micro_batch: 1, global_batch: 192, eval_every: 1, eval_sequences: 21, threads: 1}
optimizer: {eps: 1e-5}
memory: {summary: false}
save: {model: false}
run: {overwrite: true}
device: cpu
END
sed 's|{synthetic: true}|{train: train.jsonl, eval: eval.jsonl, tokenizer: byte, packing: concatenate}|' tokens.yaml >examples.yaml
for ((i = 0; i < 400; ++i)); do
  echo "{\"prompt\": \"what comes after the number $i?\", \"completion\": \" $((i + 1))\"}"
done >train.jsonl
head -n 40 train.jsonl >eval.jsonl

losses() { grep -o '"eval_loss": *[0-9.e+-]*' "$1/metrics.jsonl" | sed 's/.*: *//'; }
for data in tokens examples; do
  for ranks in 1 2 4; do
    for micro_batch in 1 2 3 8 16; do
      "$mpirun_sh" $ranks "$plimsoll" train $data.yaml --set parallel.data=$ranks --set run.dir=run \
        --set train.micro_batch=$micro_batch >run.txt 2>&1 || fail "$(cat run.txt)"
      losses run >losses.txt
      [ -e $data.losses ] || cp losses.txt $data.losses
      paste $data.losses losses.txt | awk '
        { d = $1 - $2; if (d < 0) d = -d; if (d > 1e-5) { print "loss", NR, $1, $2; bad = 1 } }
        END { exit bad || NR != 3 }' || fail "$data, $ranks ranks, micro-batch $micro_batch"
    done
  done
done
echo "passed"
