#!/usr/bin/env bash
# nvcc.sh INPUTS UNUSED FLAGS…: runs nvcc, then writes to UNUSED those of the files listed in INPUTS
# that the compiler did not read, so that a change in them rebuilds nothing.
set -euo pipefail
inputs=$1 unused=$2
shift 2
%{home}/bin/nvcc %{flags} "$@" -MD -MF "$unused.d"
tr -s ' \\' '\n' < "$unused.d" | sed 's|^\./||' | sort -u > "$unused.read"
sort -u "$inputs" | comm -23 - "$unused.read" > "$unused"
