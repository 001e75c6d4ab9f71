#!/usr/bin/env bash
# usage: embed.sh NAME=FILE…
# Prints C++ that defines each NAME of reports/assets.h as the contents of FILE.
set -euo pipefail
printf '#include "reports/assets.h"\n\nnamespace plimsoll::reports {\n'
for argument in "$@"; do
  name=${argument%%=*} file=${argument#*=}
  # Refuses text that would end the C++ literal, or the page's script element, early.
  if grep -qiF -e ')asset"' -e '</script' -e '</style' "$file"; then
    echo "embed.sh: $file cannot be embedded" >&2
    exit 1
  fi
  printf 'const std::string_view %s = R"asset(' "$name"
  cat "$file"
  printf ')asset";\n'
done
printf '}  // namespace plimsoll::reports\n'
