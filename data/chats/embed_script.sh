#!/usr/bin/env bash
# usage: embed_script.sh FILE Prints C++ that defines RenderChatsScript() of
# data/chats/render_chats_script.h, which returns the text of FILE.
set -euo pipefail
if grep -qF ')python"' "$1"; then
  echo "embed_script.sh: $1 cannot be embedded" >&2
  exit 1
fi
printf '#include "data/chats/render_chats_script.h"\n\nnamespace plimsoll::data {\n\n'
printf 'std::string_view RenderChatsScript() {\n  return R"python('
cat "$1"
printf ')python";\n}\n\n}  // namespace plimsoll::data\n'
