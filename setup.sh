#!/usr/bin/env bash
# Installs the Debian packages that building and testing need. Safe to repeat; quick when nothing
# is missing. `./setup.sh --dev` adds what only developers need (fuzzing, formatting, comparisons).
set -euo pipefail

packages=(
  g++ bazel-bootstrap bazel-rules-java python3          # compiler, build system, test summary
  libeigen3-dev zlib1g-dev                              # linear algebra, compression
  libpcre2-dev libutf8proc-dev                          # tokenisers' patterns and normal forms
  libyaml-cpp-dev nlohmann-json3-dev libcli11-dev       # YAML, JSON, command line
  libspdlog-dev libfmt-dev                              # logging, text formatting
  libopenmpi-dev openmpi-bin                            # many processes
  libgtest-dev libgmock-dev                             # tests
  fortunes                                              # the quickstart's text
)
dev_packages=(
  clang-14 libclang-rt-14-dev clang-format              # fuzz targets, formatting
  libopenblas0-pthread libdnnl2                         # bench/: rates to compare with
)

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
if [ ${#missing[@]} -eq 0 ]; then
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
echo "setup.sh: done"
