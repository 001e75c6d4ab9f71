// Whether algorithms of libraries are chosen by measurements, and where choices are stored. These
// options hold for all kinds of choices (ops/cuda/products/gemm_choice.h,
// ops/cuda/cudnn_convolution_choice.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace plimsoll::ops {

struct ChoiceOptions {
  // Whether to measure. If not, the libraries' own first choices are used; nothing is timed, and no
  // file is read or written. nullopt: false if the environment variable PLIMSOLL_CUDA_GEMM is
  // "first", else true.
  std::optional<bool> measure;
  // The folder of the files; empty: no files. nullopt: ${XDG_CACHE_HOME:-~/.cache}/plimsoll.
  std::optional<std::string> folder;
  // Whether to use our own forms. If not, matrix products use only cuBLASLt's algorithms, and sums
  // in bf16 are computed in slices.
  bool gemm_forms = true;
  // Whether to use cuBLASLt. If not, matrix products use only our own forms
  // (ops/cuda/products/gemm_forms.h) if one supports them.
  bool gemm_library = true;
  // Called with a warning about a file that can't be used and is replaced. Empty: prints to
  // standard error.
  std::function<void(const std::string&)> warn;
};

// Applies to the complete process, and forgets earlier choices. Must not be called while work is
// being enqueued.
void SetChoices(ChoiceOptions options);

const ChoiceOptions& CurrentChoiceOptions();

// The resolved options `measure` and `folder`; the folder is empty unless choices are measured.
bool MeasuresChoices();
std::string ChoiceFolder();

// Grows with every SetChoices(): choices made under an earlier number must be forgotten.
uint64_t ChoiceGeneration();

}  // namespace plimsoll::ops
