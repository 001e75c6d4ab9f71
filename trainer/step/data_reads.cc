#include "trainer/step/data_reads.h"

#include <algorithm>
#include <iterator>

namespace plimsoll::trainer {

DataReads::DataReads(const StepPrograms& step) {
  int64_t held = -1;  // the first draw of the previous run
  int64_t next = -1;  // the draw after the draw that was read last
  for (const StepEntry& entry : step.entries) {
    if (!BeginsMicroSteps(entry.action)) continue;
    int64_t draw = entry.draw, reads = entry.times * entry.micro_steps;
    if (draw == held) {
      draw += entry.micro_steps;
      reads -= entry.micro_steps;
    }
    held = entry.draw + (entry.times - 1) * entry.micro_steps;
    if (reads == 0) continue;
    if (draw != next) stretches_.push_back({count_, draw});
    next = draw + reads;
    count_ += reads;
  }
}

int64_t DataReads::DrawOf(int64_t read) const {
  const auto behind = std::ranges::upper_bound(stretches_, read, {}, &Stretch::first_read);
  const Stretch& stretch = *std::prev(behind);
  return stretch.draw + read - stretch.first_read;
}

}  // namespace plimsoll::trainer
