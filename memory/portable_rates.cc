// Made by bench/rates.py from the times of 14 calls of 5 runs on one NVIDIA H200 as 8.0,
// 2026-12-01. Held out: gpt2-1558m. Do not edit.
// Times of single calls are multiplied by what steps took of them: attention 1.025, large products
// 1.029; and each launch takes 0.01 microseconds more, since others are next to it.
#include "memory/portable_rates.h"

namespace plimsoll::memory {
namespace {

constexpr MeasuredRate kPortableRates[] = {
    // Kind, start in seconds, FLOP/s, bytes a second.
    {{"attention", "half", ""}, 24.11e-6, 537e12, 7.39e12},
    {{"attention", "half", "heads of 128 causal"}, 1.80e-6, 572e12, 9.66e12},
    {{"attention", "half", "heads of 64"}, 15.81e-6, 726e12, 3.82e12},
    {{"attention", "half", "heads of 64 causal"}, 27.49e-6, 473e12, 6.96e12},
    {{"attention_backward", "half", ""}, 1.80e-6, 186e12, 9.62e12},
    {{"attention_backward", "half", "heads of 128 causal"}, 30.54e-6, 180e12, 9.69e12},
    {{"attention_backward", "half", "heads of 64"}, 12.87e-6, 196e12, 8.31e12},
    {{"attention_backward", "half", "heads of 64 causal"}, 1.80e-6, 201e12, 4.5e12},
    {{"linear_cross_entropy_train", "half", ""}, 33.07e-6, 529e12, 8.93e12},
    {{"linear_cross_entropy_train", "half", "large"}, 1.87e-6, 551e12, 9.01e12},
    {{"linear_cross_entropy_train", "half", "large with bias"}, 32.90e-6, 335e12, 0.191e12},
};

}  // namespace

std::span<const MeasuredRate> PortableRates() { return kPortableRates; }

}  // namespace plimsoll::memory
