#!/bin/bash
# Every code block of docs/extending.md that follows a line "`docs/examples/FILE`:" is that file, and
# one that follows "`FILE` has:" is a part of that one.
set -euo pipefail
document=docs/extending.md
failed=0
shown=0

# The code block that follows a line.
block_after() {
  awk -v head="$1" '
    $0 == head { found = 1; next }
    found && /^```/ { if (inside) exit; inside = 1; next }
    inside { print }' "$document"
}

while IFS= read -r file; do
  shown=$((shown + 1))
  block=$(block_after "\`$file\`:")
  if [[ "$block" != "$(cat "$file")" ]]; then
    echo "$document shows an old $file:"
    diff <(echo "$block") "$file" || true
    failed=1
  fi
done < <(sed -n 's/^`\(docs\/examples\/[^`]*\)`:$/\1/p' "$document")
while IFS= read -r file; do
  shown=$((shown + 1))
  block=$(block_after "\`$file\` has:")
  if [[ -z "$block" || "$(cat "$file")" != *"$block"* ]]; then
    echo "$document shows what $file does not have:"
    echo "$block"
    failed=1
  fi
done < <(sed -n 's/^`\([^`]*\)` has:$/\1/p' "$document")
((shown >= 11)) || { echo "$document shows only $shown files"; failed=1; }
exit $failed
