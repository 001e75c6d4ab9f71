// A loop over independent pieces of work that may fail.
#pragma once

#include <cstddef>
#include <exception>
#include <vector>

#include "base/function_ref.h"
#include "base/thread_pool.h"

namespace plimsoll {

// Calls body(i) for i < n on the pool's threads, like ParallelFor, and throws the error of the
// smallest i that fails.
inline void ParallelEach(ThreadPool& pool, size_t n, FunctionRef<void(size_t)> body) {
  std::vector<std::exception_ptr> errors(n);
  pool.ParallelFor(static_cast<int64_t>(n), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      try {
        body(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace plimsoll
