// cuda_start_floor [--bytes N] [--apart] [--copy] [--read FILE…]
//                  [--driver | [--piece MIB] [--register-threads N]] [--threads N] [--small-pages]
//
// What a start cannot do without: a context on the GPU, the handles of cuBLASLt and cuDNN, and N
// bytes of pinned memory, by all cores on huge pages. Prints one line of JSON: the milliseconds of
// each part, and those since the process was started, dynamic loading included. Pages are touched
// while the context is made (--apart: afterwards), and then registered. With --copy also the rates
// of copies of up to 4 GiB of that memory, with --read the time in which all cores read the files
// into it. The second line's options pin in other ways, to compare.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/errno_text.h"
#include "base/error.h"
#include "gpu/check.h"
#include "gpu/first_device.h"
#include "gpu/libraries.h"

namespace plimsoll::bench {
namespace {

using nlohmann::json;

constexpr int64_t kHugePage = int64_t{2} << 20;

struct Arguments {
  int64_t bytes = 0;
  bool driver = false;  // takes the memory
  int64_t piece = 0;    // MiB registered at once; 0: all
  int register_threads = 1;
  int threads = 0;  // 0: one for each core of the process
  bool small_pages = false, apart = false, copy = false;
  std::vector<std::string> read;
};

double Milliseconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double, std::milli>(Clock::now().time_since_epoch()).count();
}

// The process's start, of which the system keeps hundredths of a second.
double MillisecondsSinceStart() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec) -
         1e3 * std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Calls body(begin, end) for the pieces of [0, bytes) on so many threads.
void InPieces(int64_t bytes, int64_t piece, int threads,
              const std::function<void(int64_t begin, int64_t end)>& body) {
  std::atomic<int64_t> next{0};
  std::vector<std::future<void>> workers;
  for (int i = 0; i < threads; ++i) {
    workers.push_back(std::async(std::launch::async, [&] {
      for (int64_t begin; (begin = next.fetch_add(piece)) < bytes;) {
        body(begin, std::min(begin + piece, bytes));
      }
    }));
  }
  for (auto& worker : workers) worker.get();
}

std::byte* Map(int64_t bytes, bool small_pages) {
  const auto size = static_cast<size_t>(bytes + kHugePage);
  void* const mapped =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw UserError("mmap: " + ErrnoText(errno));
  madvise(mapped, size, small_pages ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
  const auto address = reinterpret_cast<uintptr_t>(mapped);
  return reinterpret_cast<std::byte*>((address + kHugePage - 1) / kHugePage * kHugePage);
}

void Touch(std::byte* memory, int64_t bytes, int threads) {
  constexpr int64_t kPage = 4096, kPiece = 16 * kHugePage;
  InPieces(bytes, kPiece, threads, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kPage) {
      *reinterpret_cast<volatile char*>(memory + at) = 0;
    }
  });
}

void Register(std::byte* memory, const Arguments& arguments) {
  const int64_t piece = arguments.piece > 0 ? arguments.piece << 20 : arguments.bytes;
  InPieces(arguments.bytes, piece, arguments.register_threads, [&](int64_t begin, int64_t end) {
    gpu::UseFirstDevice();
    gpu::Check(
        cudaHostRegister(memory + begin, static_cast<size_t>(end - begin), cudaHostRegisterDefault),
        "cudaHostRegister");
  });
}

// Of the process's anonymous memory, in percent.
double HugePages() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::map<std::string, double> found;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    double kib = 0;
    if (words >> name >> kib) found[name] = kib;
  }
  return found["Anonymous:"] > 0 ? 100 * found["AnonHugePages:"] / found["Anonymous:"] : 0;
}

std::string HugePagesAllowed() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  std::getline(file, line);
  return line;
}

// GB/s of the fastest of three copies, recorded as a step's copies are. They begin within a piece.
json CopyRates(std::byte* memory, int64_t bytes) {
  const auto size = static_cast<size_t>(std::min<int64_t>(bytes / 2, int64_t{4} << 30));
  std::byte* const host = memory + bytes / 5;
  void* device = nullptr;
  gpu::Check(cudaMalloc(&device, size), "cudaMalloc");
  cudaStream_t stream;
  gpu::Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  json rates;
  for (const bool to_host : {false, true}) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t copy = nullptr;
    gpu::Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
    const cudaError_t status = cudaMemcpyAsync(to_host ? host : device, to_host ? device : host,
                                               size, cudaMemcpyDefault, stream);
    gpu::Check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    if (status != cudaSuccess) return {{"copy_error", cudaGetErrorString(status)}};
    gpu::Check(cudaGraphInstantiate(&copy, graph, 0), "cudaGraphInstantiate");
    double best = 0;
    for (int i = 0; i < 3; ++i) {
      const double start = Milliseconds();
      gpu::Check(cudaGraphLaunch(copy, stream), "cudaGraphLaunch");
      gpu::Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
      best = std::max(best, 1e-6 * static_cast<double>(size) / (Milliseconds() - start));
    }
    rates[to_host ? "to_host_gb_s" : "to_device_gb_s"] = best;
  }
  return rates;
}

// Reads the files into the memory, one behind the other; returns their bytes.
int64_t Read(const std::vector<std::string>& files, std::byte* memory, int threads) {
  constexpr int64_t kPiece = int64_t{8} << 20;
  int64_t done = 0;
  for (const std::string& name : files) {
    const int file = open(name.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat found {};
    if (file < 0 || fstat(file, &found) != 0) throw UserError(name + ": " + ErrnoText(errno));
    std::atomic<int> error{0};
    InPieces(found.st_size, kPiece, threads, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const ssize_t got =
            pread(file, memory + done + begin, static_cast<size_t>(end - begin), begin);
        if (got <= 0) {
          error = got == 0 ? EIO : errno;
          return;
        }
        begin += got;
      }
    });
    close(file);
    if (error != 0) throw UserError(name + ": " + ErrnoText(error));
    done += found.st_size;
  }
  return done;
}

int64_t BytesOf(const std::vector<std::string>& files) {
  int64_t bytes = 0;
  for (const std::string& name : files) {
    struct stat found {};
    if (stat(name.c_str(), &found) != 0) throw UserError(name + ": " + ErrnoText(errno));
    bytes += found.st_size;
  }
  return bytes;
}

void Run(Arguments arguments) {
  json row = {{"loading_ms", MillisecondsSinceStart()}};
  const int threads =
      arguments.threads > 0 ? arguments.threads : int(std::thread::hardware_concurrency());
  arguments.bytes = std::max(arguments.bytes, BytesOf(arguments.read));
  const bool maps = !arguments.driver && arguments.bytes > 0;
  std::byte* memory = maps ? Map(arguments.bytes, arguments.small_pages) : nullptr;
  double last = Milliseconds();
  const auto pass = [&](const char* part) {
    const double now = Milliseconds();
    row[part] = now - last;
    last = now;
  };
  const auto policy = arguments.apart ? std::launch::deferred : std::launch::async;
  std::future<double> touched = std::async(policy, [&] {
    const double start = Milliseconds();
    if (maps) Touch(memory, arguments.bytes, threads);
    return Milliseconds() - start;
  });
  gpu::UseFirstDevice();
  pass("context_ms");
  gpu::Libraries libraries;
  libraries.cublas_lt();
  pass("cublas_ms");
  libraries.cudnn(nullptr);
  pass("cudnn_ms");
  row["touching_ms"] = touched.get();
  pass("awaited_touching_ms");
  if (maps) {
    Register(memory, arguments);
  } else if (arguments.bytes > 0) {
    void* data = nullptr;
    gpu::Check(cudaHostAlloc(&data, static_cast<size_t>(arguments.bytes), cudaHostAllocDefault),
               "cudaHostAlloc");
    memory = static_cast<std::byte*>(data);
  }
  pass("pinning_ms");
  row["start_ms"] = MillisecondsSinceStart();
  row["bytes"] = arguments.bytes;
  row["threads"] = threads;
  row["huge_pages_percent"] = HugePages();
  row["huge_pages_allowed"] = HugePagesAllowed();
  if (!arguments.read.empty()) {
    last = Milliseconds();
    row["read_bytes"] = Read(arguments.read, memory, threads);
    pass("read_ms");
  }
  if (arguments.copy) row.update(CopyRates(memory, arguments.bytes));
  fmt::print("{}\n", row.dump());
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  plimsoll::bench::Arguments arguments;
  CLI::App app("The parts of a start that nothing can do without");
  app.add_option("--bytes", arguments.bytes, "pinned memory");
  app.add_flag("--apart", arguments.apart, "touch pages after the context is made");
  app.add_flag("--copy", arguments.copy, "measure copies of the memory");
  app.add_option("--read", arguments.read, "files to read into the memory");
  app.add_flag("--driver", arguments.driver, "let the driver take the memory (cudaHostAlloc)");
  app.add_option("--piece", arguments.piece, "MiB registered at once; 0: all");
  app.add_option("--register-threads", arguments.register_threads, "that register pieces");
  app.add_option("--threads", arguments.threads, "that touch and read; 0: one for each core");
  app.add_flag("--small-pages", arguments.small_pages, "no huge pages");
  CLI11_PARSE(app, argc, argv);
  try {
    plimsoll::bench::Run(arguments);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
