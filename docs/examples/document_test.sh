#!/bin/bash
# Every code block of docs/extending.md that follows a line "`docs/examples/FILE`:" is that file.
set -euo pipefail
document=docs/extending.md
failed=0
shown=0
while IFS= read -r file; do
  shown=$((shown + 1))
  block=$(awk -v head="\`$file\`:" '
    $0 == head { found = 1; next }
    found && /^```/ { if (inside) exit; inside = 1; next }
    inside { print }' "$document")
  if [[ "$block" != "$(cat "$file")" ]]; then
    echo "$document shows an old $file:"
    diff <(echo "$block") "$file" || true
    failed=1
  fi
done < <(sed -n 's/^`\(docs\/examples\/[^`]*\)`:$/\1/p' "$document")
((shown >= 9)) || { echo "$document shows only $shown files"; failed=1; }
exit $failed
