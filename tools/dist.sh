#!/usr/bin/env bash
# usage: dist.sh ARCHIVE PROGRAM FILE…
# Packs everything for a node that has only a driver and an MPI:
#   plimsoll/bin/plimsoll   the program; it looks for libraries in ../lib first
#   plimsoll/lib/           NVIDIA's libraries, in builds with CUDA
#   plimsoll/licences/      of everything that the program contains
#   plimsoll/…              the files, at their places in the repository
set -euo pipefail
archive=$1 program=$2
shift 2
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
root=$stage/plimsoll
mkdir -p "$root/bin" "$root/licences"
cp -L "$program" "$root/bin/plimsoll"
for file in "$@"; do
  mkdir -p "$root/$(dirname "$file")"
  cp -L "$file" "$root/$file"
done

"$(dirname "$0")/licences.sh" "$root/licences"

# From a toolkit, where each part may have its own licence, or from a system's packages.
copy_licences() {
  local root_of=$1 found
  [ ! -x "$root_of/bin/nvcc" ] || find -L "$root_of" -maxdepth 5 \( -iname 'EULA*.txt' -o -iname 'LICENSE*' \) -type f 2>/dev/null |
    while read -r found; do
      cp -L "$found" "$root/licences/nvidia-$(realpath --relative-to="$root_of" "$found" | tr '/ ' '--')"
    done
  for found in /usr/share/doc/lib{cublas,cudnn,nccl,nvrtc}*/copyright; do
    [ ! -e "$found" ] || cp -L "$found" "$root/licences/$(basename "$(dirname "$found")")"
  done
}

# cuDNN and NVRTC load their further libraries by name, from their own folder.
ldd "$program" | awk '$1 ~ /^lib(cublas|cudnn|nccl|nvrtc)/ && $3 ~ /^\// { print $1, $3 }' |
  while read -r name path; do
    mkdir -p "$root/lib"
    cp -L "$path" "$root/lib/$name"
    folder=$(dirname "$path")
    copy_licences "$(dirname "$(realpath "$path")")/.."
    for beside in "$folder"/libcudnn_*.so.[0-9] "$folder"/libnvrtc-builtins.so.*; do
      case $name,$(basename "$beside") in
        libcudnn.*,libcudnn_* | libnvrtc.*,libnvrtc-builtins*)
          [ ! -e "$beside" ] || cp -L "$beside" "$root/lib/"
          ;;
      esac
    done
  done

# The archive has the same bytes whenever the contents are the same.
chmod -R u+w,a+rX "$root"
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - -C "$stage" plimsoll | gzip -n >"$archive"
