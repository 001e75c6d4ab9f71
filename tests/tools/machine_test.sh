#!/usr/bin/env bash
# usage: machine_test.sh MACHINE.SH
#
# A thing that appears, disappears or is replaced on a made-up machine changes the line of its kind,
# and no other line.
set -euo pipefail
machine=$1
root=$TEST_TMPDIR/root
unset PLIMSOLL_SHARED
failures=0

describe() { "$machine" "$root"; }

# changes KIND COMMAND…: the command changes the line of that kind only.
changes() {
  local kind=$1 before after
  shift
  before=$(describe)
  "$@"
  after=$(describe)
  if [ "$(grep "^$kind " <<<"$before")" = "$(grep "^$kind " <<<"$after")" ]; then
    echo "$kind: not changed by: $*"
    failures=1
  fi
  if [ "$(grep -v "^$kind " <<<"$before")" != "$(grep -v "^$kind " <<<"$after")" ]; then
    echo "not $kind alone changed by: $*"
    failures=1
  fi
}

put() { # FILE [TEXT]
  mkdir -p "$(dirname "$root/$1")"
  echo "${2:-}" >"$root/$1"
}

mkdir -p "$root"
[ "$(describe)" = "$(describe)" ] || { echo "two calls differ"; failures=1; }
changes browser put usr/bin/chromedriver
changes browser put usr/bin/chromedriver "of another size"
changes browser touch -d '2020-01-01' "$root/usr/bin/chromedriver"
changes browser put usr/lib/python3/dist-packages/selenium/__init__.py
changes browser put usr/local/lib/python3.11/dist-packages/selenium/__init__.py
changes browser rm "$root/usr/bin/chromedriver"
changes tensorboard put usr/lib/python3/dist-packages/google/protobuf/__init__.py
changes fashion_mnist put usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz
changes jinja2 put usr/lib/python3/dist-packages/jinja2/__init__.py
changes mpi put usr/local/bin/mpirun
changes gpu put dev/nvidia0
changes gpu put dev/nvidia1
changes gpu put proc/driver/nvidia/version "NVRM version: 580.1"
changes gpu put proc/driver/nvidia/version "NVRM version: 590.2"
changes gpu put usr/lib/x86_64-linux-gnu/libcuda.so.1
# Interrupts don't identify the card.
put proc/driver/nvidia/gpus/0/information "IRQ: 1"
before=$(describe)
put proc/driver/nvidia/gpus/0/information "IRQ: 2"
[ "$before" = "$(describe)" ] || { echo "an interrupt's number counts"; failures=1; }
changes gpu put proc/driver/nvidia/gpus/0/information "Model: another"

mkdir -p "$root/files"
export PLIMSOLL_SHARED=$root/files
changes shared put files/golden/a
changes shared put files/golden/a "of another size"
changes shared touch -d '2020-01-01' "$root/files/golden/a"
changes shared mv "$root/files/golden/a" "$root/files/golden/b"
before=$(describe)
mv "$root/files" "$root/elsewhere"
export PLIMSOLL_SHARED=$root/elsewhere
[ "$before" = "$(describe)" ] || { echo "the same files elsewhere differ"; failures=1; }
changes shared rm -r "$root/elsewhere"
exit $failures
