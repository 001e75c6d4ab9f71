#include "trainer/record/data_time.h"

#include <fmt/format.h>

namespace plimsoll::trainer {

std::string DataTimeText(double data_seconds, double step_seconds) {
  constexpr double kNoticedShare = 0.1;
  if (data_seconds < kNoticedShare * step_seconds || data_seconds <= 0) return "";
  return fmt::format("data {:.3g} of {:.3g} ms", data_seconds * 1e3, step_seconds * 1e3);
}

}  // namespace plimsoll::trainer
