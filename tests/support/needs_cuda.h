// Tests of CUDA code skip, with a message, where there is no GPU.
#pragma once

#include <string>

namespace plimsoll {

// Why no GPU can be used; empty when there is one.
std::string WhyNoCudaDevice();

}  // namespace plimsoll

// Must be the first line of a test or SetUp() that needs a GPU: only the test's own body can
// return.
#define PLIMSOLL_NEEDS_CUDA                                                  \
  if (const std::string why = ::plimsoll::WhyNoCudaDevice(); !why.empty()) { \
    GTEST_SKIP() << "no CUDA device: " << why;                               \
  }
