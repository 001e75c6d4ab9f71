#include "data/prefetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "data/batch_rows.h"

namespace plimsoll::data {
namespace {

// Rows take unequal times. With several ranges for each thread, all threads finish a batch at about
// the same time.
constexpr int64_t kRangesOfWorker = 4;

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

int PrefetchPlaces(int64_t workers, int64_t rows, int64_t held) {
  const int64_t under_work = (workers + rows - 1) / std::max<int64_t>(1, rows);
  return static_cast<int>(held + 1 + std::max<int64_t>(1, under_work));
}

Prefetcher::Prefetcher(const Source& source, int workers, std::function<int64_t(int64_t)> first_of)
    : source_(source), workers_(std::max(1, workers)), first_of_(std::move(first_of)) {
  Start();
}

Prefetcher::Prefetcher(const Source& source, int workers, std::function<int64_t(int64_t)> first_of,
                       BatchMemory& memory)
    : source_(source), workers_(std::max(1, workers)), first_of_(std::move(first_of)) {
  UseMemory(memory);
  Start();
}

Prefetcher::~Prefetcher() { Stop(); }

void Prefetcher::Start() {
  try {
    for (int i = 0; i < workers_; ++i) threads_.emplace_back([this] { Work(); });
  } catch (const std::system_error& error) {
    Stop();
    throw UserError(fmt::format("data.workers: {} cannot be started ({}), only {}; ask for fewer",
                                Counted(workers_, "thread"), error.what(), threads_.size()));
  }
}

void Prefetcher::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Prefetcher::UseMemory(BatchMemory& memory) {
  memory_ = &memory;
  rows_ = RowsOf(memory.slots(0));
  range_ = std::max<int64_t>(1, rows_ / (kRangesOfWorker * workers_));
  batches_ = std::vector<Batch>(static_cast<size_t>(memory.places()));
}

// Returns the batch with the lowest number, which is needed first.
Prefetcher::Batch* Prefetcher::NextWork() {
  Batch* next = nullptr;
  for (Batch& batch : batches_) {
    const bool work =
        batch.state == State::kWanted || (batch.state == State::kOpen && batch.next_row < rows_);
    if (work && (next == nullptr || batch.number < next->number)) next = &batch;
  }
  return next;
}

void Prefetcher::Work() {
  std::vector<graph::Slot> part;
  std::unique_lock lock(mutex_);
  for (;;) {
    Batch* batch = nullptr;
    wanted_.wait(lock, [&] { return stops_ || (batch = NextWork()) != nullptr; });
    if (stops_) return;
    if (batch->state == State::kWanted) {
      Open(*batch, lock);
    } else {
      FillRange(*batch, part, lock);
    }
  }
}

// Opens a batch for filling. Only this thread waits until nothing reads the batch's place.
void Prefetcher::Open(Batch& batch, std::unique_lock<std::mutex>& lock) {
  batch.state = State::kOpening;
  batch.first = first_of_(batch.number);
  batch.next_row = batch.under_work = 0;
  batch.problem = nullptr;
  lock.unlock();
  std::exception_ptr problem;
  try {
    memory_->Await(PlaceOf(batch));
  } catch (...) {
    problem = std::current_exception();
  }
  lock.lock();
  batch.opened = Clock::now();
  batch.state = State::kOpen;
  if (problem || forgets_) {
    batch.next_row = rows_;
    return Report(batch, problem, 0);
  }
  wanted_.notify_all();
}

void Prefetcher::FillRange(Batch& batch, std::vector<graph::Slot>& part,
                           std::unique_lock<std::mutex>& lock) {
  const int64_t begin = batch.next_row, count = std::min(range_, rows_ - begin);
  batch.next_row += count;
  ++batch.under_work;
  const std::span<const graph::Slot> slots = memory_->slots(PlaceOf(batch));
  lock.unlock();
  const Clock::time_point start = Clock::now();
  std::exception_ptr problem;
  try {
    TakeRows(slots, begin, count, part);
    source_.Fill(batch.first + begin, part);
  } catch (...) {
    problem = std::current_exception();
  }
  const double seconds = Seconds(Clock::now() - start);
  lock.lock();
  busy_seconds_ += seconds;
  --batch.under_work;
  Report(batch, problem, begin);
}

// Records that a range of the batch is done, or failed at `row`.
void Prefetcher::Report(Batch& batch, std::exception_ptr problem, int64_t row) {
  if (problem && (!batch.problem || row < batch.problem_row)) {
    batch.problem = std::move(problem);
    batch.problem_row = row;
  }
  if (batch.next_row < rows_ || batch.under_work > 0) return;
  batch.state = State::kReady;
  ready_.notify_all();
}

void Prefetcher::Want(int64_t number) {
  Of(number).number = number;
  Of(number).state = State::kWanted;
}

void Prefetcher::ForgetAll(std::unique_lock<std::mutex>& lock) {
  forgets_ = true;  // a batch that is being opened then hands out no rows
  for (Batch& batch : batches_) {
    if (batch.state == State::kWanted) batch.state = State::kFree;
    if (batch.state != State::kOpen) continue;
    batch.next_row = rows_;
    if (batch.under_work == 0) batch.state = State::kReady;
  }
  for (Batch& batch : batches_) {
    ready_.wait(lock,
                [&] { return batch.state != State::kOpening && batch.state != State::kOpen; });
    if (batch.state != State::kLeased) batch.state = State::kFree;
  }
  forgets_ = false;
  next_ = -1;
}

void Prefetcher::Forget() {
  std::unique_lock lock(mutex_);
  ForgetAll(lock);
}

// Restarts prefetching at batch `number`. Places that are still leased are reused after they are
// given back.
void Prefetcher::BeginAt(int64_t number, std::unique_lock<std::mutex>& lock) {
  ForgetAll(lock);
  next_ = number;
  for (int64_t i = 0; i < std::ssize(batches_); ++i) {
    if (Of(number + i).state == State::kFree) Want(number + i);
  }
  wanted_.notify_all();
}

int Prefetcher::Lease(int64_t number) {
  const Clock::time_point begin = Clock::now();
  std::unique_lock lock(mutex_);
  if (next_ != number) BeginAt(number, lock);
  Batch& batch = Of(number);
  if (batch.state == State::kLeased) {
    throw InternalError("a prefetched batch has the place of one that is not given back");
  }
  ready_.wait(lock, [&] { return batch.state == State::kReady; });
  const Clock::time_point from = std::max(begin, batch.opened), now = Clock::now();
  if (now > from) waited_seconds_ += Seconds(now - from);
  if (batch.problem) {
    const std::exception_ptr problem = batch.problem;
    ForgetAll(lock);
    std::rethrow_exception(problem);
  }
  batch.state = State::kLeased;
  next_ = number + 1;
  return PlaceOf(number);
}

void Prefetcher::GiveBack(int place) {
  {
    const std::lock_guard lock(mutex_);
    Batch& batch = batches_.at(static_cast<size_t>(place));
    if (batch.state != State::kLeased) throw InternalError("a place is given back twice");
    batch.state = State::kFree;
    if (next_ < 0) return;
    const int64_t count = std::ssize(batches_);
    Want(next_ + (place - next_ % count + count) % count);
  }
  wanted_.notify_one();
}

void Prefetcher::Fill(int64_t number, std::span<const graph::Slot> slots) {
  if (memory_ == nullptr) {
    const int places = PrefetchPlaces(workers_, RowsOf(slots));
    own_ = std::make_unique<OwnBatchMemory>(slots, places);
    const std::lock_guard lock(mutex_);
    UseMemory(*own_);
  }
  if (slots.size() != memory_->slots(0).size()) {
    throw InternalError("prefetched batches with other slots");
  }
  const int place = Lease(number);
  // No thread writes to a leased batch.
  const std::span<const graph::Slot> from = memory_->slots(place);
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].bytes.size() != from[i].bytes.size()) {
      throw InternalError("prefetched batches with slots of another size");
    }
    std::memcpy(slots[i].bytes.data(), from[i].bytes.data(), from[i].bytes.size());
  }
  GiveBack(place);
}

double Prefetcher::busy_seconds() const {
  const std::lock_guard lock(mutex_);
  return busy_seconds_;
}

double Prefetcher::waited_seconds() const {
  const std::lock_guard lock(mutex_);
  return waited_seconds_;
}

int64_t Prefetcher::bytes() const {
  const std::lock_guard lock(mutex_);
  return memory_ == nullptr ? 0 : memory_->bytes();
}

}  // namespace plimsoll::data
