// Made by bench/rates.py from the times of 14 calls of 5 runs on one NVIDIA H200 as 8.0,
// 2026-12-01. Held out: gpt2-1558m. Do not edit.
// Times of single calls are multiplied by what steps took of them: attention 1.019, large products
// 1.027; and each launch takes 0.01 microseconds more, since others are next to it.
#include "memory/portable_rates.h"

namespace plimsoll::memory {
namespace {

constexpr MeasuredRate kPortableRates[] = {
    // Kind, start in seconds, FLOP/s, bytes a second.
    {{"attention", "half", ""}, 11.63e-6, 474e12, 6.83e12},
    {{"attention", "half", "heads of 128 causal"}, 1.02e-6, 578e12, 9.46e12},
    {{"attention", "half", "heads of 64"}, 1.03e-6, 609e12, 3.37e12},
    {{"attention", "half", "heads of 64 causal"}, 27.41e-6, 445e12, 9.13e12},
    {{"attention_backward", "half", ""}, 18.02e-6, 227e12, 3.15e12},
    {{"attention_backward", "half", "heads of 128 causal"}, 30.60e-6, 221e12, 2.9e12},
    {{"attention_backward", "half", "heads of 64"}, 30.62e-6, 214e12, 5.76e12},
    {{"attention_backward", "half", "heads of 64 causal"}, 30.67e-6, 206e12, 5.31e12},
    {{"linear_cross_entropy_train", "half", ""}, 31.13e-6, 805e12, 0.0584e12},
    {{"linear_cross_entropy_train", "half", "large"}, 1.04e-6, 759e12, 0.0755e12},
    {{"linear_cross_entropy_train", "half", "large with bias"}, 30.93e-6, 618e12, 0.0461e12},
};

}  // namespace

std::span<const MeasuredRate> PortableRates() { return kPortableRates; }

}  // namespace plimsoll::memory
