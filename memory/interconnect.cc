#include "memory/interconnect.h"

#include <algorithm>
#include <iterator>

namespace plimsoll::memory {
namespace {

// Bytes a second over the links of a GPU, in calls of 256 MiB.
struct Rates {
  int channels;
  double all_reduce, reduce_scatter;
  double gather_data;    // by copy engines
  double gather_tensor;  // by multiprocessors
};
constexpr Rates kRates[] = {
    {4, 166e9, 100e9, 371e9, 192e9},
    {8, 259e9, 189e9, 371e9, 336e9},
    {16, 261e9, 207e9, 371e9, 300e9},
    {kMostChannels, 260e9, 207e9, 371e9, 278e9},
};

const Rates& RatesOf(int channels) {
  const Rates* rates = std::begin(kRates);
  while (rates->channels < channels && std::next(rates) != std::end(kRates)) ++rates;
  return *rates;
}

// Of each byte of a tensor, (R − 1)/R enters and leaves each GPU; in an all-reduce twice.
double Seconds(const AxisTraffic& axis, const Rates& rates, double gather) {
  const double one_way = static_cast<double>(axis.ranks - 1) / static_cast<double>(axis.ranks);
  return one_way * (2 * axis.all_reduce / rates.all_reduce +
                    axis.reduce_scatter / rates.reduce_scatter + axis.all_gather / gather);
}

}  // namespace

double CollectiveSeconds(const MeshTraffic& traffic, int channels) {
  const Rates& rates = RatesOf(channels);
  return Seconds(traffic.data, rates, rates.gather_data) +
         Seconds(traffic.tensor, rates, rates.gather_tensor);
}

int FewestChannels(const MeshTraffic& traffic, double step_seconds) {
  const double allowed = CollectiveSeconds(traffic, kMostChannels) + 0.01 * step_seconds;
  for (const Rates& rates : kRates) {
    if (CollectiveSeconds(traffic, rates.channels) <= allowed) return rates.channels;
  }
  return kMostChannels;
}

int64_t CommunicatorBytes(bool data, bool tensor, int channels) {
  constexpr int64_t kMiB = 1 << 20;
  if (!data && !tensor) return 0;
  // The first loads NCCL's kernels. Registered memory takes a table; copy engines, flags.
  const int64_t first = 196 + 6 * channels + 40;
  const int64_t second = 44 + 6 * channels;
  // The maxima of a split vocabulary, which are reduced through buffers, of 24 channels at most.
  const int64_t maxima = tensor ? 186 + 4 * std::min(channels, 24) : 0;
  return (first + (data && tensor ? second : 0) + maxima) * kMiB;
}

}  // namespace plimsoll::memory
