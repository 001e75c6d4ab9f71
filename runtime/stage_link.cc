#include "runtime/stage_link.h"

#include <fmt/format.h>

#include "base/error.h"

namespace plimsoll::runtime {

StageLink::StageLink(int64_t stage, std::vector<int64_t> ranks)
    : stage_(stage), ranks_(std::move(ranks)), flights_(slots()) {
  if (stage < 0 || stage >= stages()) {
    throw InternalError(fmt::format("stage {} of {} stages", stage, stages()));
  }
}

int StageLink::PeerOf(const Transfer& transfer) const {
  const bool next =
      (transfer.way == Way::kSend) == (transfer.message.direction == LinkDirection::kDown);
  return static_cast<int>(next ? stage_ + 1 : stage_ - 1);
}

std::string StageLink::Text(const Transfer& transfer) const {
  const bool send = transfer.way == Way::kSend;
  const int peer = PeerOf(transfer);
  const std::string text =
      fmt::format("{} of micro-batch {} {} stage {}", send ? "send" : "receive",
                  transfer.message.micro_batch, send ? "to" : "from", peer);
  if (peer < 0 || peer >= stages()) return text;
  return fmt::format("{} (rank {}), slot {}", text, ranks_[static_cast<size_t>(peer)],
                     transfer.message.slot);
}

void StageLink::Fail(const Transfer& transfer, std::string_view why) const {
  throw InternalError(fmt::format("{}: {}", Text(transfer), why));
}

void StageLink::CheckSlot(int64_t slot) const {
  if (slot >= 0 && slot < slots()) return;
  throw InternalError(fmt::format("slot {} of a link of {} slots", slot, slots()));
}

void StageLink::Start(const Transfer& transfer) {
  CheckSlot(transfer.message.slot);
  if (const int peer = PeerOf(transfer); peer < 0 || peer >= stages()) {
    Fail(transfer, fmt::format("there are {} stages", stages()));
  }
  Flight& flight = flights_.At(transfer);
  if (flight.started) {
    Fail(transfer, fmt::format("that of micro-batch {} has not been awaited", flight.micro_batch));
  }
  flight = {.started = true, .micro_batch = transfer.message.micro_batch};
}

void StageLink::StartSend(const StageMessage& message, std::span<const std::byte> bytes) {
  const Transfer transfer = {Way::kSend, message};
  Start(transfer);
  try {
    DoStartSend(transfer, bytes);
  } catch (const InternalError& error) {
    Fail(transfer, error.what());
  }
}

void StageLink::StartReceive(const StageMessage& message, std::span<std::byte> bytes) {
  const Transfer transfer = {Way::kReceive, message};
  Start(transfer);
  try {
    DoStartReceive(transfer, bytes);
  } catch (const InternalError& error) {
    Fail(transfer, error.what());
  }
}

void StageLink::Await(const Transfer& transfer) {
  try {
    DoAwait(transfer);
  } catch (const InternalError& error) {
    Fail(transfer, error.what());
  }
}

void StageLink::AwaitSend(LinkDirection direction, int64_t slot) {
  CheckSlot(slot);
  Flight& flight = flights_.At(Way::kSend, direction, slot);
  if (!std::exchange(flight.started, false)) return;
  Await({Way::kSend, {direction, slot, flight.micro_batch}});
}

void StageLink::AwaitSends() {
  for (const LinkDirection direction : {LinkDirection::kDown, LinkDirection::kUp}) {
    for (int64_t slot = 0; slot < slots(); ++slot) AwaitSend(direction, slot);
  }
}

void StageLink::AwaitReceive(LinkDirection direction, int64_t slot) {
  CheckSlot(slot);
  Flight& flight = flights_.At(Way::kReceive, direction, slot);
  if (!std::exchange(flight.started, false)) {
    throw InternalError(fmt::format("no receive {} was started in slot {}",
                                    direction == LinkDirection::kDown ? "down" : "up", slot));
  }
  Await({Way::kReceive, {direction, slot, flight.micro_batch}});
}

}  // namespace plimsoll::runtime
