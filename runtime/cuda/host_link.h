// How fast a GPU copies to and from pinned memory of the host.
#pragma once

#include <optional>

namespace plimsoll::runtime {

// Bytes a second.
struct HostLink {
  double to_device = 0, to_host = 0;            // one way alone
  double both_to_device = 0, both_to_host = 0;  // both ways at the same time
};

// Measures the GPU that MakeCudaDevice would take, with 32 MiB of its memory and of the host's, which
// it gives back; the process keeps its context. nullopt where there is no GPU or no such memory.
std::optional<HostLink> MeasureHostLink();

}  // namespace plimsoll::runtime
