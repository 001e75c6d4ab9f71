#!/usr/bin/env bash
# Installs the Debian packages that building and testing need and, where there is a CUDA toolkit,
# the headers of cudnn-frontend. Safe to repeat; quick when nothing is missing. `./setup.sh --dev`
# adds what only developers need (fuzzing, formatting, comparisons, images to test with), `--reports`
# what looks at the pictures and metrics that runs write: a browser (about 350 MB) and TensorBoard.
# Without them those tests are skipped, and run once they are there (tools/machine.sh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

packages=(
  g++ bazel-bootstrap bazel-rules-java python3          # compiler, build system, test summary
  python3-venv                                          # tests of the wheel
  libeigen3-dev                                         # linear algebra
  zlib1g-dev liblzma-dev libzstd-dev                    # compressed text
  libjpeg62-turbo-dev libpng-dev                        # pictures
  libpcre2-dev libutf8proc-dev                          # tokenisers' patterns and normal forms
  libyaml-cpp-dev nlohmann-json3-dev libcli11-dev       # YAML, JSON, command line
  libspdlog-dev libfmt-dev                              # logging, text formatting
  libjs-chart.js                                        # charts of reports
  libopenmpi-dev openmpi-bin                            # many processes
  python3-jinja2                                        # chats, by their templates
  libgtest-dev libgmock-dev                             # tests
  fortunes                                              # the quickstart's text
)
dev_packages=(
  clang-14 libclang-rt-14-dev clang-format              # fuzz targets, formatting
  libopenblas0-pthread libdnnl2                         # bench/: rates to compare with
  dataset-fashion-mnist                                 # images (30 MB) that a test reads
)

report_packages=(
  chromium chromium-driver python3-selenium             # pages in a browser
  python3-pip python3-protobuf python3-numpy python3-absl python3-six # TensorBoard, and what it needs
)

# Where the CUDA toolkit is; empty: nowhere, and --config=cuda cannot be built.
cuda_home=${CUDA_HOME:-/usr/local/cuda}
[ -x "$cuda_home/bin/nvcc" ] || cuda_home=
[ -z "$cuda_home" ] || packages+=(python3-pip) # fetches cudnn-frontend

fail() {
  echo "setup.sh: $*" >&2
  exit 1
}

reports=
for argument in "$@"; do
  case "$argument" in
    --dev) packages+=("${dev_packages[@]}") ;;
    --reports) packages+=("${report_packages[@]}") reports=yes ;;
    -h | --help)
      echo "usage: ./setup.sh [--dev] [--reports]   installs the Debian packages Plimsoll needs"
      echo "  --dev      also for fuzzing, formatting, bench, images"
      echo "  --reports  also for the tests of reports: a browser, TensorBoard"
      exit 0
      ;;
    *) fail "unknown argument '$argument'; usage: ./setup.sh [--dev] [--reports]" ;;
  esac
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  fail "this is not a Debian-like system (no apt-get); install the equivalents of: ${packages[*]}"
fi

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
done

# fetch_wheel NAME PART: third_party/NAME becomes that part of the package's wheel (. is all of it),
# checked against the hash in third_party/NAME.txt. The version is chosen, not this machine's Python:
# every machine gets the same files.
fetch_wheel() {
  local name=$1 part=$2 pinned=third_party/$1.txt folder=third_party/$1 download
  cmp -s "$pinned" "$folder/pinned.txt" && return 0
  download=$(mktemp -d)
  echo "setup.sh: fetching $name"
  python3 -m pip --disable-pip-version-check -q download --no-deps --only-binary=:all: --require-hashes \
    --python-version 3.11 --platform manylinux_2_27_x86_64 -d "$download" -r "$pinned" &&
    python3 -m zipfile -e "$download"/*.whl "$download/wheel" &&
    rm -rf "$folder" && mkdir -p "$folder" &&
    cp -r "$download/wheel/$part" "$folder/" &&
    cp "$pinned" "$folder/pinned.txt" && # last: it says that all is here
    rm -rf "$download"
}

fetch_wheels() {
  [ -z "$cuda_home" ] || fetch_wheel cudnn_frontend include ||
    fail "could not fetch cudnn-frontend (its reason is above); builds without --config=cuda do not need it"
  [ -z "$reports" ] || fetch_wheel tensorboard . ||
    fail "could not fetch TensorBoard (its reason is above); only tests of reports need it"
}

if [ ${#missing[@]} -eq 0 ]; then
  fetch_wheels
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
fetch_wheels
echo "setup.sh: done"
