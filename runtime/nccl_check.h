// Every call of NCCL is checked by this.
#pragma once

#include <nccl.h>

namespace plimsoll::runtime {

// Nothing on success; otherwise an InternalError with the call's name ("ncclAllReduce") and what
// NCCL says of it. `comm` is the communicator it was about, where there is one.
void CheckNccl(ncclResult_t status, const char* call, ncclComm_t comm = nullptr);

}  // namespace plimsoll::runtime
