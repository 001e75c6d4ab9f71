// Losses of preferences: pairs of answers to one prompt, of which one was chosen and one rejected.
//   dpo   Rafailov et al. 2023, "Direct Preference Optimization", equation 7; with label smoothing
//         as in Mitchell 2023, "A note on DPO with noisy preferences", equation 3.
//   ipo   Azar et al. 2023, "A General Theoretical Paradigm to Understand Learning from Human
//         Preferences", equation 17, of mean log-probabilities per token, as TRL computes it.
//   SFT's loss of the chosen answer: Pang et al. 2024, "Iterative Reasoning Preference
//         Optimization", equation 1.
//
// A row holds documents one after the other: chosen, rejected, chosen, rejected, … A document
// begins where `positions` is 0. Documents 2k and 2k + 1 of a row are a pair if both have a target
// that counts (≥ 0); the rest of a row is padding. For a document with n counted targets and
// reference log-probability ρ:
//
//   l = Σ logp over its counted targets,  r = l − ρ           c: of the chosen, j: of the rejected
//   d = r_c − r_j
//   dpo:  L = −(1 − ε) · log σ(β·d) − ε · log σ(−β·d)          ε: label_smoothing
//   ipo:  L = (r_c/n_c − r_j/n_j − 1/(2β))²
//   loss  = scale · Σ over pairs of (L − sft_weight · l_c/n_c)
//
// logp[B,T], loss and dloss have one compute type C (f32 or f64); targets, positions i32[B,T];
// scale f32[] (1 / pairs of the step). reference f32[B,T] has ρ at the document's first token; its
// other elements are not read.
//
//   preference_loss           (logp, targets, positions, reference, scale) → loss C[], and optional
//                             sums over the pairs, C[]: pairs (their number), rewards_chosen β·r_c,
//                             rewards_rejected β·r_j, rewards_margins β·d, rewards_accuracies (1 if
//                             r_c > r_j), logps_chosen l_c, logps_rejected l_j
//   preference_loss_backward  (logp, targets, positions, reference, scale, dloss[]) → dlogp[B,T],
//                             0 where no target counts
//
// Sums are taken in double, row after row, and l is rounded to C. Within a row they are in the
// order of tokens on a CPU, and in another fixed order on a GPU.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"

namespace plimsoll::ops {

enum class Preference { kDpo, kIpo };  // "dpo", "ipo"

struct PreferenceOptions {
  Preference loss = Preference::kDpo;
  double beta = 0.1;
  double label_smoothing = 0;  // label smoothing, for kDpo
  double sft_weight = 0;
  bool operator==(const PreferenceOptions&) const = default;
};

struct PreferenceInputs {
  graph::Value logp, targets, positions, reference, scale;
};

// Scalars. All but the loss are sums over the pairs, and have no gradient.
struct PreferenceOutputs {
  graph::Value loss, pairs;
  graph::Value rewards_chosen, rewards_rejected, rewards_margins, rewards_accuracies;
  graph::Value logps_chosen, logps_rejected;
};

PreferenceOutputs PreferenceLoss(graph::Builder& g, const PreferenceInputs& inputs,
                                 const PreferenceOptions& options, std::string_view name = "");

// The layout of the CUDA kernels' workspace, as offsets in bytes.
struct CudaPreferenceLayout {
  int64_t sums_at;    // f64[rows,8]: each row's sums for the outputs
  int64_t begins_at;  // i32[rows,tokens+1]: where documents begin
  int64_t bytes;
};
CudaPreferenceLayout LayOutCudaPreferences(int64_t rows, int64_t tokens);

}  // namespace plimsoll::ops
