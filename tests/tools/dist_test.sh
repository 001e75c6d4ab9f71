#!/usr/bin/env bash
# The archive runs where it is unpacked, without any other file of the repository.
set -euo pipefail
archive=$PWD/${1:?with --config=cuda there is no archive to test}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -xzf "$archive" -C "$folder"
cd "$folder/plimsoll"
fail() {
  echo "dist_test.sh: $*"
  exit 1
}
bin/plimsoll --version | grep -q '^plimsoll ' || fail "no version"
plan=$(bin/plimsoll plan configs/techniques/block.yaml --set memory.calibrate=false)
grep -q '^predicted step: ' <<<"$plan" || fail "no plan"
bin/plimsoll docs | grep -q '^budget  *A budget in bytes$' || fail "no documentation"
for file in LICENSE README.md docs/configuration.md docs/configuration/model.md licences/libyaml-cpp-dev licences/libjs-chart.js; do
  [ -s "$file" ] || fail "no $file"
done
readelf -d bin/plimsoll | grep -q 'ORIGIN/../lib' || fail "the program does not look into lib/"
