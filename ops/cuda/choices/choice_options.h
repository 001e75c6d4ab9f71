// Whether algorithms of libraries are chosen by measurements, and where choices are kept: for all
// kinds of choices (ops/cuda/products/gemm_choice.h, ops/cuda/cudnn_convolution_choice.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace plimsoll::ops {

struct ChoiceOptions {
  // False: takes the libraries' own first choices; nothing is timed and no file is read or written.
  // nullopt: false if the environment variable PLIMSOLL_CUDA_GEMM is "first", else true.
  std::optional<bool> measure;
  // The folder of the files; empty: no files. nullopt: ${XDG_CACHE_HOME:-~/.cache}/plimsoll.
  std::optional<std::string> folder;
  // False: matrix products only by cuBLASLt's algorithms; sums in bf16 slice by slice.
  bool gemm_forms = true;
  // False: matrix products only by our own forms (ops/cuda/products/gemm_forms.h) where one serves.
  bool gemm_library = true;
  // Called about a file that can't be used and is replaced. Empty: prints to standard error.
  std::function<void(const std::string&)> warn;
};

// Applies to the whole process; forgets earlier choices. Not while work is being enqueued.
void SetChoices(ChoiceOptions options);

const ChoiceOptions& CurrentChoiceOptions();

// The resolved options `measure` and `folder`; the folder is empty unless choices are measured.
bool MeasuresChoices();
std::string ChoiceFolder();

// Grows with every SetChoices(): what was chosen under an earlier number is to be forgotten.
uint64_t ChoiceGeneration();

}  // namespace plimsoll::ops
