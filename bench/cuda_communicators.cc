// mpirun -np 4 bazel-bin/bench/cuda_communicators [--channels N] [--registered [--copy-engines]]
//                                                 [--gather-first] [--json FILE]
//
// Measures the memory that an NCCL communicator takes on each GPU, step by step: when it is made,
// after the first call of each kind, and for another communicator of some of the ranks, with shared
// buffers or its own. Then measures the bus bandwidth of its calls (bytes that each GPU must move
// over its links, per second: the link rate that would be needed at best), for several sizes. NCCL
// reads its settings from the environment once (NCCL_BUFFSIZE, …): bench/communicator_memory.py
// runs this program for each of them.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/low_precision.h"
#include "gpu/check.h"
#include "runtime/cuda/cuda_handles.h"
#include "runtime/ranks/cuda_communicator.h"
#include "runtime/ranks/world.h"

namespace plimsoll::bench {
namespace {

using graph::DType;
using nlohmann::json;
using ops::Communicator;
using ops::Reduction;
using runtime::World;

constexpr DType kType = DType::kBFloat16;
constexpr int64_t kLargest = int64_t{1} << 30;  // bytes
constexpr int64_t kWarmUp[] = {4 << 10, 256 << 10, 8 << 20, 256 << 20};
constexpr int64_t kTimed[] = {1 << 20, 8 << 20, 64 << 20, 256 << 20, kLargest};
constexpr double kSecondsPerTiming = 0.05;

struct Arguments {
  int channels = 0;  // at most; 0: NCCL's choice
  bool registered = false, copy_engines = false;
  bool gather_first = false;
  std::string json;
};

// The resources of a measurement on this rank.
struct Bench {
  World& world;
  const runtime::CudaStream& stream;
  std::byte* data;  // kLargest bytes on the GPU

  void Wait() const { gpu::Check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize"); }

  // The largest over the ranks.
  double Max(double value) const {
    for (const std::string& text : world.Gather(fmt::format("{}", value))) {
      value = std::max(value, std::stod(text));
    }
    return value;
  }
  // The GPU memory that `action` takes, on the rank where it takes most.
  int64_t BytesOf(const std::function<void()>& action) const {
    const int64_t before = Free();
    action();
    Wait();
    world.Barrier();
    return static_cast<int64_t>(Max(static_cast<double>(before - Free())));
  }

 private:
  static int64_t Free() {
    size_t free = 0, total = 0;
    gpu::Check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return static_cast<int64_t>(free);
  }
};

// A kind of call, in place, on a whole tensor of `bytes`, of which each rank has a part.
struct Call {
  const char* name;
  void (*run)(const Bench& bench, Communicator& communicator, int64_t bytes);
  // Bytes over the links of each GPU for one byte of the tensor.
  double (*bus_bytes)(int size);
};

double OneWay(int size) { return static_cast<double>(size - 1) / size; }
double BothWays(int size) { return 2 * OneWay(size); }

void AllReduce(const Bench& bench, Communicator& communicator, int64_t bytes) {
  communicator.AllReduce(bench.data, bench.data, bytes / graph::ByteSize(kType), kType,
                         Reduction::kSum, bench.stream.get());
}

void AllGather(const Bench& bench, Communicator& communicator, int64_t bytes) {
  const int64_t part = bytes / graph::ByteSize(kType) / communicator.size();
  communicator.AllGather(bench.data + communicator.rank() * part * graph::ByteSize(kType),
                         bench.data, part, kType, bench.stream.get());
}

void ReduceScatter(const Bench& bench, Communicator& communicator, int64_t bytes) {
  const int64_t part = bytes / graph::ByteSize(kType) / communicator.size();
  communicator.ReduceScatter(bench.data,
                             bench.data + communicator.rank() * part * graph::ByteSize(kType), part,
                             kType, Reduction::kSum, bench.stream.get());
}

// Between neighbours, first one way, then the other.
void SendAndReceive(const Bench& bench, Communicator& communicator, int64_t bytes) {
  const int peer = communicator.rank() ^ 1;
  if (peer >= communicator.size()) return;
  const int64_t count = bytes / graph::ByteSize(kType);
  for (const int sender : {0, 1}) {
    if (communicator.rank() % 2 == sender) {
      communicator.Send(bench.data, count, kType, peer, bench.stream.get());
    } else {
      communicator.Receive(bench.data, count, kType, peer, bench.stream.get());
    }
  }
}

constexpr Call kAllReduce = {"all_reduce", &AllReduce, &BothWays};
constexpr Call kAllGather = {"all_gather", &AllGather, &OneWay};
constexpr Call kReduceScatter = {"reduce_scatter", &ReduceScatter, &OneWay};
constexpr Call kSendReceive = {"send_receive", &SendAndReceive, nullptr};

// Runs the call at sizes for which NCCL uses different algorithms and protocols, each with its
// buffers.
void RunAllSizes(const Bench& bench, Communicator& communicator, const Call& call) {
  for (const int64_t bytes : kWarmUp) call.run(bench, communicator, bytes);
}

// The measurements are worthless if a setting breaks the sums.
void CheckSums(const Bench& bench, Communicator& communicator) {
  std::vector<uint16_t> values(1 << 20, ToBf16(static_cast<float>(communicator.rank() + 1)));
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(values[0]));
  gpu::Check(cudaMemcpy(bench.data, values.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  AllReduce(bench, communicator, bytes);
  ReduceScatter(bench, communicator, bytes);
  AllGather(bench, communicator, bytes);
  bench.Wait();
  gpu::Check(cudaMemcpy(values.data(), bench.data, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  const int size = communicator.size();
  const auto expected = static_cast<float>(size * size * (size + 1) / 2);
  for (const uint16_t value : values) {
    if (FromBf16(value) == expected) continue;
    throw InternalError(fmt::format("a sum is {}, not {}", FromBf16(value), expected));
  }
}

double Seconds(const Bench& bench, Communicator& communicator, const Call& call, int64_t bytes) {
  const runtime::CudaEvent begin(runtime::CudaEvent::Kind::kTime);
  const runtime::CudaEvent end(runtime::CudaEvent::Kind::kTime);
  const auto time = [&](int calls) {
    bench.world.Barrier();
    begin.Record(bench.stream.get());
    for (int i = 0; i < calls; ++i) call.run(bench, communicator, bytes);
    end.Record(bench.stream.get());
    end.Wait();
    return bench.Max(end.MicrosecondsSince(begin) * 1e-6 / calls);
  };
  time(2);
  return time(static_cast<int>(std::clamp(kSecondsPerTiming / time(2), 2.0, 200.0)));
}

json MeasureMemory(const Bench& bench, std::unique_ptr<Communicator>& whole,
                   const Arguments& arguments) {
  const runtime::CudaCommunicatorOptions options = {.max_channels = arguments.channels,
                                                    .copy_engines = arguments.copy_engines};
  json memory;
  const auto enlist = [&](Communicator& communicator) {
    if (arguments.registered) communicator.Register(bench.data, kLargest);
  };
  memory["made"] =
      bench.BytesOf([&] { whole = runtime::MakeCudaCommunicator(bench.world, options); });
  memory["registered"] = bench.BytesOf([&] { enlist(*whole); });
  std::vector<Call> calls = {kAllReduce, kAllGather, kReduceScatter, kSendReceive};
  if (arguments.gather_first) std::rotate(calls.begin(), calls.begin() + 1, calls.begin() + 3);
  for (const Call& call : calls) {
    memory[call.name] = bench.BytesOf([&] { RunAllSizes(bench, *whole, call); });
  }
  // Groups of two ranks, like the tensor axis of a mesh.
  const auto pair = bench.world.Split(bench.world.rank() / 2, bench.world.rank());
  for (const bool shared : {true, false}) {
    std::unique_ptr<Communicator> part;
    json& here = memory[shared ? "shared_part" : "own_part"];
    here["made"] = bench.BytesOf([&] {
      part = runtime::MakeCudaCommunicator(*pair, options, shared ? whole.get() : nullptr);
      enlist(*part);
    });
    here["used"] = bench.BytesOf([&] {
      for (const Call& call : {kAllReduce, kAllGather, kReduceScatter}) {
        RunAllSizes(bench, *part, call);
      }
    });
    if (arguments.registered) part->Deregister(bench.data);
  }
  return memory;
}

void Print(const json& result, const Arguments& arguments) {
  fmt::print("{} ranks, {}, NCCL {}, channels: {}\n\nMemory of a GPU\n", result["ranks"].get<int>(),
             result["gpu"].get<std::string>(), result["nccl"].get<std::string>(),
             arguments.channels == 0 ? "NCCL's choice" : fmt::format("≤ {}", arguments.channels));
  const json& memory = result["memory"];
  const auto line = [](const std::string& what, const json& bytes) {
    fmt::print("  {:<28}{:>10}\n", what, FormatBytes(bytes.get<int64_t>()));
  };
  line("made", memory["made"]);
  if (arguments.registered) line("memory registered", memory["registered"]);
  for (const json& name : result["order"]) {
    line("first " + name.get<std::string>(), memory[name.get<std::string>()]);
  }
  line("a part sharing, made", memory["shared_part"]["made"]);
  line("a part sharing, used", memory["shared_part"]["used"]);
  line("a part of its own, made", memory["own_part"]["made"]);
  line("a part of its own, used", memory["own_part"]["used"]);
  fmt::print("\nBus bandwidth, GB/s{:>9}", "");
  for (const int64_t bytes : kTimed) fmt::print("{:>10}", FormatBytes(bytes));
  for (const Call& call : {kAllReduce, kAllGather, kReduceScatter}) {
    fmt::print("\n  {:<26}", call.name);
    for (const json& timing : result["calls"][call.name]) {
      fmt::print("{:>10.1f}", timing["bus_bytes_per_second"].get<double>() * 1e-9);
    }
  }
  fmt::print("\n");
}

void Run(World& world, const Arguments& arguments) {
  int devices = 0;
  gpu::Check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  if (devices < world.local_size()) {
    throw UserError(fmt::format("mpirun: {} ranks on this host, which has {} GPUs",
                                world.local_size(), devices));
  }
  if (world.size() < 2) throw UserError("mpirun: this measures two ranks or more (-np 4)");
  gpu::Check(cudaSetDevice(world.local_rank()), "cudaSetDevice");
  cudaDeviceProp properties = {};
  gpu::Check(cudaGetDeviceProperties(&properties, world.local_rank()), "cudaGetDeviceProperties");
  const runtime::CudaStream stream;
  const runtime::CudaBuffer data(runtime::CudaBuffer::Kind::kShared, kLargest, "the tensor");
  gpu::Check(cudaMemset(data.data(), 0, kLargest), "cudaMemset");
  const Bench bench = {world, stream, data.data()};

  std::unique_ptr<Communicator> whole;
  json result = {{"ranks", world.size()},
                 {"gpu", properties.name},
                 {"nccl", runtime::NcclVersion()},
                 {"max_channels", arguments.channels},
                 {"registered", arguments.registered},
                 {"copy_engines", arguments.copy_engines}};
  result["order"] = arguments.gather_first
                        ? json({"all_gather", "reduce_scatter", "all_reduce", "send_receive"})
                        : json({"all_reduce", "all_gather", "reduce_scatter", "send_receive"});
  result["memory"] = MeasureMemory(bench, whole, arguments);
  CheckSums(bench, *whole);
  for (const Call& call : {kAllReduce, kAllGather, kReduceScatter}) {
    for (const int64_t bytes : kTimed) {
      const double seconds = Seconds(bench, *whole, call, bytes);
      result["calls"][call.name].push_back(
          {{"bytes", bytes},
           {"seconds", seconds},
           {"bus_bytes_per_second",
            call.bus_bytes(world.size()) * static_cast<double>(bytes) / seconds}});
    }
  }
  whole->Deregister(data.data());
  whole.reset();
  if (world.rank() != 0) return;
  Print(result, arguments);
  if (arguments.json.empty()) return;
  std::FILE* const file = std::fopen(arguments.json.c_str(), "w");
  if (file == nullptr) throw UserError(arguments.json + ": cannot be written");
  fmt::print(file, "{}\n", result.dump());
  std::fclose(file);
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  plimsoll::bench::Arguments arguments;
  CLI::App app("Memory and bandwidth of a communicator between GPUs");
  app.add_option("--channels", arguments.channels, "at most so many; 0: NCCL's choice");
  app.add_flag("--registered", arguments.registered, "the ranks know each other's memory");
  app.add_flag("--copy-engines", arguments.copy_engines, "which gather what is registered");
  app.add_flag("--gather-first", arguments.gather_first, "all-gather before all-reduce");
  app.add_option("--json", arguments.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  plimsoll::runtime::World world;
  try {
    plimsoll::bench::Run(world, arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {} (host {}): {}\n", world.rank(), world.host(), error.what());
    world.Abort(1);
  }
  return 0;
}
