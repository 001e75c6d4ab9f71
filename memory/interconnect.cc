#include "memory/interconnect.h"

#include <algorithm>
#include <iterator>

#include "base/axes.h"
#include "base/error.h"
#include "runtime/stage_link.h"

namespace plimsoll::memory {
namespace {

// The bandwidths of collectives over a GPU's links, in bytes per second, for calls of 256 MiB.
struct Rates {
  int channels;
  double all_reduce, reduce_scatter;
  double gather_overlapped;  // for gathers moved by copy engines
  double gather;             // for gathers moved by multiprocessors
};
constexpr Rates kRates[] = {
    {4, 166e9, 100e9, 371e9, 192e9},
    {8, 259e9, 189e9, 371e9, 336e9},
    {16, 261e9, 207e9, 371e9, 300e9},
    {kMostChannels, 260e9, 207e9, 371e9, 278e9},
};
constexpr int kUsual = 1;  // the row that applies to large models

// The fixed time of a call: until all ranks have started it, and have learnt that it ended.
constexpr double kSecondsPerCall = 10e-6;

// The slowdown of other work at the same time, in seconds for each second of collectives, fitted to
// steps of 20 layouts of GPT-2 1558M, Llama 8B and Qwen2.5 7B (docs/measured/parallelism.md).
constexpr double kBesideSum = 0.5, kBesideGather = 0.9;

// The time of one axis's traffic: (R − 1)/R of a tensor's bytes enter and leave each GPU; in an
// all-reduce, twice that.
double Seconds(const AxisTraffic& traffic, const Rates& rates) {
  const auto ranks = static_cast<double>(traffic.axis.ranks);
  const double gather = traffic.axis.gathers_overlap ? rates.gather_overlapped : rates.gather;
  return (ranks - 1) / ranks *
         (2 * traffic.all_reduce / rates.all_reduce +
          traffic.reduce_scatter / rates.reduce_scatter + traffic.all_gather / gather);
}

// The time of all calls, one after the other.
double Seconds(const MeshTraffic& traffic, const Rates& rates) {
  double seconds = 0;
  for (const AxisTraffic& axis : traffic) seconds += Seconds(axis, rates);
  return seconds;
}

}  // namespace

AxisTraffic TrafficOf(const graph::OpCall& call, const Mesh& mesh) {
  const std::string& name = call.attributes.GetWord("axis");
  const std::vector<MeshAxis> axes = AllAxes(mesh);
  const auto axis = std::ranges::find(axes, name, &MeshAxis::name);
  if (axis == axes.end()) throw InternalError("no axis '" + name + "' of ranks");
  AxisTraffic traffic = {.axis = *axis};
  if (call.op.name == "all_gather_start") {
    traffic.all_gather = static_cast<double>(call.output(0).bytes());
  } else {
    (call.op.name == "all_reduce_start" ? traffic.all_reduce : traffic.reduce_scatter) =
        static_cast<double>(call.input(0).bytes());
  }
  return traffic;
}

double CollectiveSeconds(const AxisTraffic& call) {
  const double alone = Seconds(call, kRates[kUsual]) + kSecondsPerCall;
  if (!call.axis.gathers_overlap) return alone;
  return alone * (call.all_gather > 0 ? kBesideGather : kBesideSum);
}

int FewestChannels(const MeshTraffic& traffic, double step_seconds) {
  const double allowed = Seconds(traffic, *std::rbegin(kRates)) + 0.01 * step_seconds;
  for (const Rates& rates : kRates) {
    if (Seconds(traffic, rates) <= allowed) return rates.channels;
  }
  return kMostChannels;
}

int64_t CommunicatorBytes(const Mesh& mesh, int channels) {
  constexpr int64_t kMiB = 1 << 20;
  int64_t bytes = 0;
  for (const MeshAxis& axis : AllAxes(mesh)) {
    if (axis.ranks == 1) continue;
    // The first communicator loads NCCL's kernels. Registered memory needs a table, and copy
    // engines need flags.
    bytes += ((bytes == 0 ? 196 + 40 : 44) + 6 * channels) * kMiB;
    // Maxima are reduced through buffers, for at most 24 channels.
    if (axis.reduces_maxima) bytes += (186 + 4 * std::min(channels, 24)) * kMiB;
    // Measured between two stages; each communicator only sends or only receives in a direction.
    if (axis.stages && axis.name != kEndsAxis) {
      bytes += runtime::kLinkCommunicators * (126 + 8 * runtime::LinkChannels(channels)) * kMiB;
    }
  }
  return bytes;
}

}  // namespace plimsoll::memory
