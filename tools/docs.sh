#!/usr/bin/env bash
# usage: tools/docs.sh [--serve]
# Builds the documentation as a site into .cache/docs/site, which opens from disk without a network:
# its page index.html, or plimsoll docs --open. --serve shows it at http://127.0.0.1:8000 and builds it
# again whenever a page changes. Takes the mkdocs-material that python3 has, else installs it into a
# virtual environment in .cache/docs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case "${1:-}" in
  "" | --serve) ;;
  *)
    sed -n '2,6s/^# //p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac

python=python3
if ! python3 -c 'import mkdocs, material' 2>/dev/null; then
  python=.cache/docs/venv/bin/python
  if ! "$python" -c 'import mkdocs, material' 2>/dev/null; then
    python3 -m venv .cache/docs/venv || {
      echo "tools/docs.sh: python3 makes no virtual environment (Debian: apt-get install python3-venv)" >&2
      exit 1
    }
    "$python" -m pip install --quiet 'mkdocs>=1.6,<2' 'mkdocs-material>=9.5,<10'
  fi
fi
export DISABLE_MKDOCS_2_WARNING=true NO_MKDOCS_2_WARNING=true
if [ "${1:-}" = --serve ]; then
  exec "$python" -m mkdocs serve --config-file docs/site/mkdocs.yml --watch README.md --watch docs/site
fi
"$python" -m mkdocs build --strict --clean --config-file docs/site/mkdocs.yml
echo "built .cache/docs/site/index.html"
