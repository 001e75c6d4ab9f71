#!/usr/bin/env bash
# Runs check_sources.sh on the repository itself (hence the tags of this test: a sandbox would only
# show declared files), after checking that it finds planted mistakes.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")") # the source folder: runfiles are links to it
root=$(dirname "$(dirname "$here")")
layers=$here/layers.txt
check=$here/check_sources.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# planted FILE CONTENT EXPECTED: with this file in a clean tree, the check must print EXPECTED.
planted() {
  local tree=$work/tree output
  rm -rf "$tree" && mkdir -p "$tree/base" "$tree/$(dirname "$1")"
  printf '#pragma once\n#include <vector>\n' >"$tree/base/a.h"
  printf '#include "base/a.h"\n' >"$tree/base/a.cc"
  echo 'It has `a.h`, and kernels `NAME_cuda.cu`.' >"$tree/base/README.md"
  bash "$check" "$tree" "$layers" "$work/files" || { echo "a clean tree is refused"; failures=1; }
  printf '%b' "$2" >"$tree/$1"
  if output=$(bash "$check" "$tree" "$layers" "$work/files") || ! grep -qF -- "$3" <<<"$output"; then
    echo "planted $1 was not found, got: $output"
    failures=1
  fi
}

planted graph/b.cc '#include "ops/a.h"\n' 'graph/b.cc:1: graph/ may not include "ops/a.h"'
planted models/b.cc '\n#include "memory/a.h"\n' 'models/b.cc:2: models/ may not include "memory/a.h"'
planted trainer/step/b.cc '#include "trainer/plan/a.h"\n' 'trainer/step/b.cc:1: trainer/step/ may not include "trainer/plan/a.h"'
planted trainer/plan/b.cc '#include "trainer/a.h"\n' 'trainer/plan/b.cc:1: trainer/plan/ may not include "trainer/a.h"'
planted graph/a.h '#pragma once\n' 'graph/a.h: has the name of base/a.h'
planted base/b.cc '#include "a.h"\n' 'base/b.cc:1: "a.h" is not written from the repository root'
planted base/b.cc '#include "fmt/format.h"\n' 'base/b.cc:1: "fmt/format.h" is no folder of ours'
planted memory/b.cc '#  include <nlohmann/json.hpp>\n' 'memory/b.cc:1: <nlohmann/json.hpp> belongs in formats models adapters reports snapshots data trainer studies app tests bench only'
planted trainer/b.cc '#include <yaml-cpp/yaml.h>\n' 'trainer/b.cc:1: <yaml-cpp/yaml.h> belongs in'
planted graph/b.cc '#include <Eigen/Core>\n' 'graph/b.cc:1: <Eigen/Core> belongs in'
planted attic/b.cc '#include <vector>\n' 'attic/b.cc:1: folder attic has no line'
planted base/b.h '#include <vector>\n' 'base/b.h:1: no #pragma once'
planted graph/b.cc '#include <vector>\n' 'graph: has sources and no README.md'
planted base/README.md 'It has\n`a.h` and `b.h`.\n' 'base/README.md:2: there is no b.h'
planted base/README.md 'It has `a.h`. See `graph/`.\n' 'base/README.md:1: there is no graph/'
planted trainer/b.cc 'fmt::print(stderr, "a");\n' 'trainer/b.cc:1:fmt::print'
planted trainer/b.cc '\nstd::fputs("a", stdout);\n' 'trainer/b.cc:2:std::fputs'
planted docs/b.md "one\ntwo TO""DO three\n" 'docs/b.md:2:two'
planted base/b.cc "// not imple""mented\n" 'base/b.cc:1:// not'
planted bench/__pycache__/b.cpython-311.pyc 'x' 'bench/__pycache__/b.cpython-311.pyc: is compiled'
planted base/libb.so 'x' 'base/libb.so: is compiled'
planted base/b '\x7fELF\x02' 'base/b: is a program'
planted docs/b.csv "$(head -c 1048577 /dev/zero | tr '\0' 1)" 'docs/b.csv: has 1048577 bytes, more than 1 MiB'
planted docs/b.md 'one\nsee /ho''me/me/x\n' 'docs/b.md:2:see'
planted docs/b.svg '<image href="/Us''ers/me/x"/>\n' 'docs/b.svg:1:<image'
planted docs/b.md 'in /ro''ot, say\n' 'docs/b.md:1:in'
planted docs/b.yaml 'dir: /wo''rk/runs\n' 'docs/b.yaml:1:dir'

# Files that Git ignores are not kept; tracked files are checked even if Git would ignore them.
tree=$work/checkout
mkdir -p "$tree/base/__pycache__"
printf '#pragma once\n' | tee "$tree/base/a.h" >"$tree/base/b.h"
echo 'It has `a.h`.' >"$tree/base/README.md"
echo '__pycache__/' >"$tree/.gitignore"
echo x >"$tree/base/__pycache__/b.pyc"
git -C "$tree" init -q
bash "$check" "$tree" "$layers" "$work/files" || { echo "an ignored file is refused"; failures=1; }
git -C "$tree" add -f base/__pycache__/b.pyc
if bash "$check" "$tree" "$layers" "$work/files" >/dev/null; then
  echo "a compiled file that Git keeps is not found"
  failures=1
fi

mkdir -p "$work/empty"
if bash "$check" "$work/empty" "$layers" "$work/files" >/dev/null; then
  echo "an empty folder passes"
  failures=1
fi

# The repository itself.
for file in WORKSPACE base/error.h trainer; do
  [ -e "$root/$file" ] || { echo "$root: no $file; this is not the repository"; exit 1; }
done
bash "$check" "$root" "$layers" "$work/files" || failures=1
echo "$(grep -cE '\.(cc|h|cu|cuh)$' "$work/files") source files looked at"
exit $failures
