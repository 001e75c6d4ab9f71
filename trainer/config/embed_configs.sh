#!/usr/bin/env bash
# usage: embed.sh FILE…
# Prints C++ that defines ShippedFiles() of trainer/config/shipped.h: each file by its path.
set -euo pipefail
printf '#include "trainer/config/shipped.h"\n\nnamespace plimsoll::config {\n'
printf 'std::span<const ShippedFile> ShippedFiles() {\n  static constexpr ShippedFile kFiles[] = {\n'
for file in "$@"; do
  if grep -qF ')config"' "$file"; then
    echo "embed.sh: $file cannot be embedded" >&2
    exit 1
  fi
  printf '{"%s", R"config(' "$file"
  cat "$file"
  printf ')config"},\n'
done
printf '  };\n  return kFiles;\n}\n}  // namespace plimsoll::config\n'
