#!/usr/bin/env bash
# usage: licences.sh FOLDER
# Copies to FOLDER the licences of libraries that are linked into the program, header-only, or part
# of the pages that it writes. Where a system keeps none, there is none to copy.
set -euo pipefail
for package in libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libspdlog-dev libfmt-dev libpcre2-dev \
  libutf8proc-dev libeigen3-dev zlib1g-dev liblzma-dev libzstd-dev libjpeg62-turbo-dev libpng-dev \
  libjs-chart.js libstdc++6; do
  licence=/usr/share/doc/$package/copyright
  [ ! -e "$licence" ] || cp -L "$licence" "$1/$package"
done
