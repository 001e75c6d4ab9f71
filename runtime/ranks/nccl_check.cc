#include "runtime/ranks/nccl_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/error.h"

namespace plimsoll::runtime {

void CheckNccl(ncclResult_t status, const char* call, ncclComm_t comm) {
  if (status == ncclSuccess) return;
  const char* const last = ncclGetLastError(comm);
  std::string details = last == nullptr ? "" : last;
  std::ranges::replace(details, '\n', ' ');
  throw InternalError(fmt::format("{}: {}{}{} (NCCL_DEBUG=WARN tells more)", call,
                                  ncclGetErrorString(status), details.empty() ? "" : ": ",
                                  details));
}

}  // namespace plimsoll::runtime
