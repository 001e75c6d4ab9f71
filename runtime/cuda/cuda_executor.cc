#include "runtime/cuda/cuda_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/message.h"
#include "runtime/cuda/cuda_fill.h"
#include "runtime/cuda/cuda_instruments.h"
#include "runtime/cuda/cuda_ranges.h"
#include "runtime/cuda/cuda_recording.h"
#include "runtime/cuda/cuda_schedule.h"

namespace plimsoll::runtime {
namespace {

using graph::Node;
using graph::Program;

using Item = CudaItem;

}  // namespace

struct CudaExecutor::Impl {
  Impl(const Program& p, const Layout& l, ArenaBases b, const CudaStreams& s, gpu::Libraries& libs,
       ExecutorOptions o, const CudaConcurrentProgram* concurrent, TensorMemory* m);
  ~Impl() {
    cudaStreamSynchronize(streams.compute.get());  // the GPU may still use members
  }

  template <typename Body>
  void WithNode(int node, Body&& body) const;
  void FindAwaited(const CudaConcurrentProgram& concurrent);
  void PassMarks(std::span<const int> marks, const std::vector<CudaEvent>& passed);
  void Enqueue(const Item& item);
  void Fork(const Item& item);
  void EnqueueWork(const Item& item);
  void EnqueueAll();
  void Collect() const;

  const Program& program;
  ArenaTensors arenas;
  TensorMemory* const memory;  // the arenas, or the memory given to the constructor
  const ExecutorOptions options;
  const CudaStreams& streams;
  CudaSchedule schedule;
  const CudaRanges ranges;
  // For each item, the event that it waits for before it begins, and the event that is recorded
  // once it has ended. nullptr: no event. Both are empty if no item has one.
  std::vector<const CudaEvent*> awaited, passed;
  CudaInputs* inputs = nullptr;  // large inputs, which are copied at the same time as runs
  // For each item, the events to record once inputs are read; may be empty.
  std::vector<std::vector<const CudaEvent*>> have_read;
  std::unique_ptr<CudaRecording> recording;

  std::optional<CudaPoison> poison;
  std::optional<CudaArenaMeter> meter;
  std::optional<CudaFiniteCheck> finite;

  // Events for the profile: the start of the run, then start and end of each item.
  std::vector<CudaEvent> times;
  mutable bool uncollected = false;
  mutable std::vector<int64_t> nanoseconds;
  mutable std::vector<NodeTime> last_times;
  int64_t runs = 0;
};

CudaExecutor::Impl::Impl(const Program& p, const Layout& l, ArenaBases b, const CudaStreams& s,
                         gpu::Libraries& libraries, ExecutorOptions o,
                         const CudaConcurrentProgram* concurrent, TensorMemory* m)
    : program(p),
      arenas(p, l, b),
      memory(m != nullptr ? m : &arenas),
      options(o),
      streams(s),
      // Instruments that read a node's results need them to be complete.
      schedule(program, arenas.layout(), b, s, libraries,
               o.check_arena || o.check_finite || memory->moves(), o.communicators, *memory),
      ranges(program),
      nanoseconds(p.nodes().size(), 0) {
  CheckInstruments(*memory, program, options);
  if (concurrent != nullptr) FindAwaited(*concurrent);
  if (options.poison) poison.emplace(program, arenas.layout(), arenas.bases());
  if (options.check_arena) meter.emplace(program, arenas.layout(), arenas.bases());
  if (options.check_finite) finite.emplace(program, arenas.layout(), arenas.bases());
  if (options.profile) {
    for (size_t i = 0; i < 2 * schedule.items().size() + 1; ++i)
      times.emplace_back(CudaEvent::Kind::kTime);
  }
}

// Finds the marks that items wait for. Marks already reached are skipped: a stream that waits for a
// mark has also waited for the earlier marks, and a stream that forks off the compute stream has
// waited for all that the compute stream has waited for.
void CudaExecutor::Impl::FindAwaited(const CudaConcurrentProgram& concurrent) {
  std::array<int, kCudaStreams> reached;
  reached.fill(StateReads::kNoMark);
  for (const Item& item : schedule.items()) {
    int mark = StateReads::kNoMark;
    for (const int node : item.nodes) {
      mark = std::max(mark, concurrent.reads.MarkBefore(program, program.nodes()[node]));
    }
    int& of_stream = reached[schedule.StreamOf(item)];
    of_stream = std::max(of_stream, reached[kCompute]);
    awaited.push_back(mark > of_stream ? &concurrent.passed[mark] : nullptr);
    of_stream = std::max(of_stream, mark);
  }
}

void CudaExecutor::Impl::PassMarks(std::span<const int> marks,
                                   const std::vector<CudaEvent>& events) {
  const std::vector<Item>& items = schedule.items();
  passed.assign(items.size(), nullptr);
  for (size_t mark = 0; mark < marks.size(); ++mark) {
    const auto behind = std::ranges::upper_bound(
        items, marks[mark], {}, [](const Item& item) { return item.nodes.front(); });
    if (behind != items.begin()) passed[behind - items.begin() - 1] = &events[mark];
  }
}

template <typename Body>
void CudaExecutor::Impl::WithNode(int node, Body&& body) const {
  try {
    body();
  } catch (const UserError& error) {
    throw UserError(fmt::format("{} [{}]", error.what(), DescribeNode(program, node)),
                    error.code());
  } catch (const std::exception& error) {
    throw InternalError(fmt::format("{}: {}", DescribeNode(program, node), error.what()));
  }
}

void CudaExecutor::Impl::Fork(const Item& item) {
  const CudaSideWork& work = schedule.side(item);
  work.may_start.Record(streams.compute.get());
  work.may_start.MakeWait(streams.of(work.stream));
}

void CudaExecutor::Impl::EnqueueWork(const Item& item) {
  switch (item.kind) {
    case Item::Kind::kCopy: {
      const CudaSideWork& copy = schedule.side(item);
      if (copy.bytes == 0) return;
      return gpu::Check(cudaMemcpyAsync(copy.target, copy.source, copy.bytes, cudaMemcpyDefault,
                                        streams.of(copy.stream)),
                        "cudaMemcpyAsync");
    }
    case Item::Kind::kDone: {
      const CudaSideWork& work = schedule.side(item);
      if (work.stream != kCompute) work.has_ended.MakeWait(streams.compute.get());
      return;
    }
    case Item::Kind::kKernels: {
      const std::span<const ops::CudaContext> contexts = schedule.contexts(item);
      if (contexts.size() == 1) return item.kernel->run(contexts.front());
      return item.kernel->run_group(contexts);
    }
  }
}

void CudaExecutor::Impl::Enqueue(const Item& item) {
  const size_t index = static_cast<size_t>(&item - schedule.items().data());
  const cudaStream_t on = streams.of(schedule.StreamOf(item));
  WithNode(item.nodes.front(), [&] {
    if (schedule.Forks(item)) Fork(item);
    if (!awaited.empty() && awaited[index] != nullptr) awaited[index]->WaitForOthers(on);
    EnqueueWork(item);
    if (schedule.Forks(item)) schedule.side(item).has_ended.Record(on);
    if (!passed.empty() && passed[index] != nullptr) passed[index]->RecordForOthers(on);
    if (inputs != nullptr) {
      for (const CudaEvent* event : have_read[index]) event->RecordForOthers(on);
    }
    if (options.launch == Launch::kAwaited)
      gpu::Check(cudaStreamSynchronize(on), "running the kernel");
  });
}

void CudaExecutor::Impl::EnqueueAll() {
  const cudaStream_t compute = streams.compute.get();
  const std::vector<Item>& items = schedule.items();
  Collect();  // collects the previous run's times, before its events are recorded again
  memory->BeforeRun();
  if (meter) meter->BeforeRun(compute);
  if (finite) finite->BeforeRun(compute);
  if (options.profile) times[0].Record(compute);
  CudaRanges::Pass pass(ranges);
  int next = 0;  // the next node
  const auto pass_views = [&](int end) {
    for (; next < end; ++next) {
      memory->BeforeNode(next);
      memory->AfterNode(next);
    }
  };
  for (size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    const gpu::Range range = pass.Node(item.nodes.front());
    const CudaStreamIndex which = schedule.StreamOf(item);
    pass_views(item.nodes.front());
    // Nodes that share a launch free their memory after it. Only the first of them allocates
    // memory.
    for (int n = next; n <= item.nodes.back(); ++n) memory->BeforeNode(n);
    for (size_t k = 0; k < item.nodes.size() && memory->moves(); ++k) schedule.Resolve(item, k);
    for (int node : item.nodes) {
      if (poison) poison->BeforeNode(node, compute);
    }
    for (int node : item.nodes) {
      if (meter) meter->BeforeNode(node, compute);
    }
    if (options.profile && which == kCompute) times[2 * i + 1].Record(compute);
    if (options.profile && which != kCompute) {
      Fork(item);  // so that the time starts when the item may run, not while its stream waits
      times[2 * i + 1].Record(streams.of(which));
    }
    Enqueue(item);
    if (options.profile) times[2 * i + 2].Record(streams.of(which));
    for (int node : item.nodes) {
      if (finite) finite->AfterNode(node, compute);
      if (meter) meter->AfterNode(node, compute);
    }
    for (int node : item.nodes) {  // after all instruments have seen the results
      if (poison) poison->AfterNode(node, compute);
    }
    for (; next <= item.nodes.back(); ++next) memory->AfterNode(next);
  }
  pass_views(static_cast<int>(program.nodes().size()));
  uncollected = options.profile;
  if (finite) finite->AfterRun(compute);
  if (meter) meter->AfterRun(compute);
}

// Waits for the last run and adds its times to the sums.
void CudaExecutor::Impl::Collect() const {
  if (!uncollected) return;
  uncollected = false;
  for (int s = 0; s < kCudaStreams; ++s) {
    gpu::Check(cudaStreamSynchronize(streams.of(static_cast<CudaStreamIndex>(s))),
               "cudaStreamSynchronize");
  }
  const std::vector<Item>& items = schedule.items();
  last_times.clear();
  for (size_t i = 0; i < items.size(); ++i) {
    NodeTime time;
    time.node = items[i].nodes.front();
    time.nodes = items[i].nodes.back() - items[i].nodes.front() + 1;
    time.start_us = times[2 * i + 1].MicrosecondsSince(times[0]);
    time.end_us = times[2 * i + 2].MicrosecondsSince(times[0]);
    time.stream = schedule.StreamOf(items[i]);
    last_times.push_back(time);
    // Nodes that run together get equal shares of the time.
    const double each = 1e3 * (time.end_us - time.start_us) / double(items[i].nodes.size());
    for (int node : items[i].nodes) nanoseconds[node] += static_cast<int64_t>(each);
  }
}

CudaExecutor::CudaExecutor(const Program& program, const Layout& layout, ArenaBases bases,
                           const CudaStreams& streams, gpu::Libraries& libraries,
                           ExecutorOptions options, const CudaConcurrentProgram* concurrent,
                           TensorMemory* memory)
    : Executor(program),
      impl_(std::make_unique<Impl>(program, layout, bases, streams, libraries, options, concurrent,
                                   memory)) {}

CudaExecutor::~CudaExecutor() = default;

void CudaExecutor::Prepare(DistinctCalls& prepared) {
  for (const Item& item : impl_->schedule.items()) {
    if (item.kernel == nullptr || item.kernel->prepare == nullptr) continue;
    const std::span<const ops::CudaContext> contexts = impl_->schedule.contexts(item);
    for (size_t i = 0; i < item.nodes.size(); ++i) {
      if (!prepared.Add(program(), {&item.nodes[i], 1})) continue;
      impl_->WithNode(item.nodes[i], [&] {
        FillOperands(contexts[i], contexts[i].stream);
        item.kernel->prepare(contexts[i]);
      });
    }
  }
}

void CudaExecutor::Load(DistinctCalls& loaded) {
  for (const Item& item : impl_->schedule.items()) {
    if (item.kind != Item::Kind::kKernels || !loaded.Add(program(), item.nodes)) continue;
    impl_->Enqueue(item);
  }
  for (int s = 0; s < kCudaStreams; ++s) {
    gpu::Check(cudaStreamSynchronize(impl_->streams.of(static_cast<CudaStreamIndex>(s))),
               "the first run of a program");
  }
}

void CudaExecutor::Record() {
  Impl& self = *impl_;
  const cudaStream_t compute = self.streams.compute.get();
  const ExecutorOptions& o = self.options;
  if (o.launch != Launch::kRecorded) return;
  if (o.check_arena || o.check_finite || o.profile) return;
  self.recording = CudaRecording::Make(compute, [&] { self.EnqueueAll(); });
  if (self.recording != nullptr) {
    self.recording->Upload(compute);
  } else {
    PrintWarning(fmt::format(
        "program '{}' is not recorded, and its kernels are launched one by one: a library copies "
        "from the host's pageable memory in it, which a recording cannot repeat",
        program().name()));
  }
}

void CudaExecutor::Run() {
  Impl& self = *impl_;
  if (self.inputs != nullptr) self.inputs->Join(self.streams.compute.get());
  if (self.recording != nullptr) {
    const gpu::Range range(program().name().c_str());
    self.recording->Launch(self.streams.compute.get());
  } else {
    self.EnqueueAll();
  }
  ++self.runs;
}

void CudaExecutor::Await() const {
  gpu::Check(cudaStreamSynchronize(impl_->streams.compute.get()), "cudaStreamSynchronize");
}

std::byte* CudaExecutor::address(graph::TensorId id) const { return impl_->memory->address(id); }

int64_t CudaExecutor::runs() const { return impl_->runs; }

int64_t CudaExecutor::used_bytes() const {
  if (!impl_->meter) throw InternalError("used_bytes() needs the option check_arena");
  return impl_->meter->used_bytes();
}

const std::vector<int64_t>& CudaExecutor::node_nanoseconds() const {
  impl_->Collect();
  return impl_->nanoseconds;
}

std::vector<NodeTime> CudaExecutor::node_times() const {
  impl_->Collect();
  return impl_->last_times;
}

void CudaExecutor::ResetProfile() {
  impl_->Collect();
  std::fill(impl_->nanoseconds.begin(), impl_->nanoseconds.end(), 0);
  impl_->runs = 0;
}

int64_t CudaExecutor::launches() const {
  return static_cast<int64_t>(impl_->schedule.items().size());
}

void CudaExecutor::ReadInputs(CudaInputs& inputs) {
  impl_->inputs = &inputs;
  impl_->have_read = inputs.ReadsBy(program(), impl_->arenas.layout(), impl_->arenas.bases().device,
                                    impl_->schedule.items());
}

void CudaExecutor::PassMarks(std::span<const int> marks, const std::vector<CudaEvent>& passed) {
  impl_->PassMarks(marks, passed);
}

CudaConcurrentExecutor::CudaConcurrentExecutor(const Program& program, const Layout& layout,
                                               ArenaBases bases, const CudaStreams& others,
                                               const CudaConcurrentProgram& concurrent,
                                               gpu::Libraries& libraries, ExecutorOptions options)
    : CudaExecutor(program, layout, bases, concurrent.streams, libraries, options),
      others_(others),
      concurrent_(concurrent),
      alone_(options.check_arena || options.check_finite) {
  PassMarks(concurrent.reads.marks(), concurrent.passed);
}

void CudaConcurrentExecutor::Run() {
  concurrent_.may_start.Record(others_.compute.get());
  concurrent_.may_start.MakeWait(concurrent_.streams.compute.get());
  CudaExecutor::Run();
  concurrent_.ended.Record(concurrent_.streams.compute.get());
  if (alone_) Await();
}

void CudaConcurrentExecutor::Await() const { concurrent_.ended.Wait(); }

}  // namespace plimsoll::runtime
