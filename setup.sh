#!/usr/bin/env bash
# Installs the Debian packages that building and testing need and, where there is a CUDA toolkit,
# the headers of cudnn-frontend. Safe to repeat; quick when nothing is missing. `./setup.sh --dev`
# adds what only developers need (fuzzing, formatting, comparisons).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

packages=(
  g++ bazel-bootstrap bazel-rules-java python3          # compiler, build system, test summary
  libeigen3-dev zlib1g-dev                              # linear algebra, compression
  libpcre2-dev libutf8proc-dev                          # tokenisers' patterns and normal forms
  libyaml-cpp-dev nlohmann-json3-dev libcli11-dev       # YAML, JSON, command line
  libspdlog-dev libfmt-dev                              # logging, text formatting
  libjs-chart.js                                        # charts of reports
  libopenmpi-dev openmpi-bin                            # many processes
  libgtest-dev libgmock-dev                             # tests
  fortunes                                              # the quickstart's text
)
dev_packages=(
  clang-14 libclang-rt-14-dev clang-format              # fuzz targets, formatting
  libopenblas0-pthread libdnnl2                         # bench/: rates to compare with
)

# Where the CUDA toolkit is; empty: nowhere, and --config=cuda cannot be built.
cuda_home=${CUDA_HOME:-/usr/local/cuda}
[ -x "$cuda_home/bin/nvcc" ] || cuda_home=
[ -z "$cuda_home" ] || packages+=(python3-pip) # fetches cudnn-frontend

fail() {
  echo "setup.sh: $*" >&2
  exit 1
}

case "${1:-}" in
  "") ;;
  --dev) packages+=("${dev_packages[@]}") ;;
  -h | --help)
    echo "usage: ./setup.sh [--dev]   installs the Debian packages Plimsoll needs (--dev: also fuzzing, formatting, bench)"
    exit 0
    ;;
  *) fail "unknown argument '$1'; usage: ./setup.sh [--dev]" ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  fail "this is not a Debian-like system (no apt-get); install the equivalents of: ${packages[*]}"
fi

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
done

# The headers come from the package's wheel, checked against the hash in cudnn_frontend.txt. The
# version is chosen, not this machine's Python: every machine gets the same file.
fetch_cudnn_frontend() {
  local pinned=third_party/cudnn_frontend.txt folder=third_party/cudnn_frontend
  [ -n "$cuda_home" ] || return 0
  cmp -s "$pinned" "$folder/pinned.txt" && return 0
  local download
  download=$(mktemp -d)
  echo "setup.sh: fetching cudnn-frontend"
  python3 -m pip --disable-pip-version-check -q download --no-deps --only-binary=:all: --require-hashes \
    --python-version 3.11 --platform manylinux_2_27_x86_64 -d "$download" -r "$pinned" ||
    fail "could not fetch cudnn-frontend (its reason is above); builds without --config=cuda do not need it"
  rm -rf "$folder" && mkdir -p "$folder"
  python3 -m zipfile -e "$download"/*.whl "$download/wheel"
  mv "$download/wheel/include" "$folder/"
  cp "$pinned" "$folder/pinned.txt" # last: it says that all is here
  rm -rf "$download"
}

if [ ${#missing[@]} -eq 0 ]; then
  fetch_cudnn_frontend
  echo "setup.sh: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null ||
    fail "not root and no sudo; as root run: apt-get install --no-install-recommends ${missing[*]}"
  as_root=(sudo)
fi

apt() { # The lock is waited for: fresh machines often run an update of their own.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 "$@"
}

echo "setup.sh: installing ${missing[*]} (this can take a few minutes)"
apt update >/dev/null || echo "setup.sh: apt-get update failed; trying with the package lists at hand" >&2
apt install -y --no-install-recommends "${missing[@]}" >/dev/null ||
  fail "apt-get could not install: ${missing[*]} (its reason is above; Debian 12 or newer has all of them)"
fetch_cudnn_frontend
echo "setup.sh: done"
