// Replaces the programs that measure CUDA kernels, in builds without CUDA.
#include <cstdio>

int main() {
  std::fputs("built without CUDA: use bazel run --config=cuda\n", stderr);
  return 1;
}
