#!/usr/bin/env bash
# usage: check_sources.sh ROOT LAYERS LIST      prints "file:line: what is wrong"; exit code 1 if
# anything is wrong. Writes the names of the checked files to LIST.
#
# Checks the layers of layers.txt, that each header says `#pragma once`, that no two sources have
# the same name, that each folder with sources has a README.md which names existing paths, that
# everything is printed through base/message.h, that nothing announces unfinished work, and that the
# repository keeps no compiled files, no files of more than 1 MiB, and no paths that only one machine
# has.
set -euo pipefail
cd "$1"
layers=$2

# All files of the project: no build outputs, no run folders, nothing hidden except .ci.
find . -mindepth 1 \( -path './.ci' -o ! -path './.*' \) ! -path './bazel-*' ! -path './third_party/*' \
  ! -path './runs/*' ! -path './mlruns/*' ! -path './datasets/*' -type f -print | sed 's|^\./||' | LC_ALL=C sort >"$3"
code=$(grep -E '\.(cc|h|cu|cuh)$' "$3" || true)
text=$(grep -E '\.(cc|h|cu|cuh|bzl|sh|py|md|yaml|txt)$|(^|/)BUILD$|^\.ci/run$' "$3" || true)
if [ "$(wc -l <<<"$code")" -lt 2 ]; then
  echo "$1: hardly any source files here; is this the repository?"
  exit 1
fi

# The files that the repository keeps: in a checkout, all that Git tracks or would add.
kept=$3.kept
if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ]; then
  git ls-files --cached --others --exclude-standard --deduplicate |
    while IFS= read -r file; do [ ! -f "$file" ] || echo "$file"; done >"$kept"
else
  cp "$3" "$kept"
fi

problems=$(
  grep -E '(^|/)__pycache__/|\.(pyc|pyo|o|a|so|so\..*|class|exe|dll)$' "$kept" | sed 's/$/: is compiled/' || true
  xargs -d '\n' grep -laP '\A\x7fELF' <"$kept" | sed 's/$/: is a program/' || true
  xargs -d '\n' stat -c '%s %n' <"$kept" | awk '$1 > 1024 * 1024 { size = $1; sub(/^[0-9]+ /, ""); print $0 ": has " size " bytes, more than 1 MiB" }'
  # A user's home folder, or the path of a checkout.
  places='(^|[^A-Za-z0-9_.~)}/-])/((home|Users)/[A-Za-z0-9_]|(root|work|workspace)(/|[^A-Za-z0-9_.-]|$))'
  xargs -d '\n' grep -HnIE "$places" <"$kept" | cut -c1-200 | sed 's/$/   <- a path of one machine/' || true
  # shellcheck disable=SC2086
  awk '
    # The layered subfolder that a file or header is in, if there is one, else its top folder.
    function room(path,   parts) {
      split(path, parts, "/")
      return ((parts[1] "/" parts[2]) in layered) ? parts[1] "/" parts[2] : parts[1]
    }
    FNR == NR {
      if ($1 == "layer") { layered[$2] = 1; for (i = 3; i <= NF; ++i) below[$2, $i] = 1 }
      if ($1 == "free") for (i = 2; i <= NF; ++i) free[$i] = 1
      if ($1 == "header") { prefixes[$2] = 1; for (i = 3; i <= NF; ++i) home[$2] = home[$2] " " $i }
      next
    }
    FNR == 1 {
      folder = room(FILENAME)
      if (!(folder in layered) && !(folder in free)) print FILENAME ":1: folder " folder " has no line in tests/style/layers.txt"
    }
    /^[ \t]*#[ \t]*include[ \t]*"/ {
      split($0, parts, "\""); header = parts[2]; top = room(header)
      if (header !~ /\//) print FILENAME ":" FNR ": \"" header "\" is not written from the repository root"
      else if (!(top in layered) && !(top in free)) print FILENAME ":" FNR ": \"" header "\" is no folder of ours; use <> for libraries"
      else if ((folder in layered) && top != folder && !((folder, top) in below)) print FILENAME ":" FNR ": " folder "/ may not include \"" header "\""
    }
    /^[ \t]*#[ \t]*include[ \t]*</ {
      header = $0; sub(/^[^<]*</, "", header); sub(/>.*/, "", header)
      for (prefix in prefixes) {
        if (index(header, prefix) != 1) continue
        count = split(home[prefix], folders, " "); allowed = 0
        for (i = 1; i <= count; ++i) if (index(FILENAME, folders[i] "/") == 1) allowed = 1
        if (!allowed) print FILENAME ":" FNR ": <" header "> belongs in" home[prefix] " only"
      }
    }' "$layers" $code
  for file in $code; do
    case "$file" in
      *.h | *.cuh) grep -q '^#pragma once$' "$file" || echo "$file:1: no #pragma once" ;;
    esac
  done
  # A search for a file by its name must find exactly one.
  awk -F/ '($NF in seen) { print $0 ": has the name of " seen[$NF] } { seen[$NF] = $0 }' <<<"$code"
  # A folder with sources has a README.md, all of tests/ one. A path in `code` is one from the
  # repository's root or from that folder.
  for folder in $(sed -E 's|^tests/.*|tests/|; s|/[^/]*$||' <<<"$code" | LC_ALL=C sort -u); do
    readme=$folder/README.md
    [ -f "$readme" ] || { echo "$folder: has sources and no README.md"; continue; }
    { grep -noE '`[A-Za-z0-9_./-]+(/|\.(h|cc|cu|cuh|sh|py|bzl|md|yaml))`' "$readme" || true; } | tr -d '`' |
      while IFS=: read -r line path; do
        [[ $path == NAME* || -e $path || -e $folder/$path ]] || echo "$readme:$line: there is no $path"
      done
  done
  # Only base/message.cc handles output that cannot be written. Programs other than plimsoll may
  # print directly.
  # shellcheck disable=SC2086
  grep -nHE "\\b(fmt::print|f?printf|puts)\\(|\\bstd::(cout|cerr)\\b|\\bf(puts|write)\\(.*\\bstd(out|err)\\b" $code |
    grep -vE '^(tests|bench|docs)/|^base/message\.cc:' | sed 's/$/   <- goes around base\/message.h/' || true
  # The words are split so that this file does not name them.
  marks="\\b(TO""DO|FIX""ME|X""XX|HA""CK)\\b|\\bnot (yet )?imple""mented\\b|\\bplace""holder\\b"
  # shellcheck disable=SC2086
  grep -nHE "$marks" $text | sed 's/$/   <- announces unfinished work/' || true
)
if [ -n "$problems" ]; then
  echo "$problems"
  exit 1
fi
