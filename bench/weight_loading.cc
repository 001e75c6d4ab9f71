// bazel run //bench:weight_loading -- FOLDER [--threads N] [--dtype fp32|bf16|fp16] [--rounds N]
//
// Reads the weights of a Hugging Face folder into a session on the CPU, and compares that with what
// the machine can do: all threads read the same files (pread) into memory of their own. Once
// with the files out of the page cache (POSIX_FADV_DONTNEED; what is not on disk yet stays), and
// then from the page cache.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "bench/training.h"
#include "runtime/device.h"
#include "runtime/process_memory.h"
#include "trainer/save_and_resume/trained_model.h"
#include "trainer/step/session.h"

namespace plimsoll::bench {
namespace {

constexpr int64_t kReadBytes = int64_t{4} << 20;

struct Arguments {
  std::string folder;
  std::string dtype = "fp32";
  int threads = 0;
  int rounds = 3;
};

class Files {
 public:
  explicit Files(const std::string& folder) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".safetensors") continue;
      const int descriptor = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
      if (descriptor < 0) throw UserError(entry.path().string() + ": cannot be opened");
      const auto size = static_cast<int64_t>(entry.file_size());
      for (int64_t at = 0; at < size; at += kReadBytes) {
        pieces_.push_back({descriptor, at, std::min(kReadBytes, size - at)});
      }
      descriptors_.push_back(descriptor);
      bytes_ += size;
    }
  }
  ~Files() {
    for (const int descriptor : descriptors_) close(descriptor);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  int64_t bytes() const { return bytes_; }

  void Forget() const {
    for (const int descriptor : descriptors_) {
      fdatasync(descriptor);
      posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    }
  }

  // By the pool's threads, each into a buffer of its own.
  void Read(ThreadPool& pool, std::vector<std::vector<std::byte>>& buffers) const {
    const auto count = static_cast<int64_t>(pieces_.size());
    pool.ParallelForWorker(count, 1, [&](int64_t begin, int64_t, int worker) {
      const Piece& piece = pieces_[static_cast<size_t>(begin)];
      std::byte* const buffer = buffers[static_cast<size_t>(worker)].data();
      for (int64_t done = 0; done < piece.bytes;) {
        const ssize_t read = pread(piece.descriptor, buffer + done,
                                   static_cast<size_t>(piece.bytes - done), piece.at + done);
        if (read <= 0) std::abort();
        done += read;
      }
    });
  }

 private:
  struct Piece {
    int descriptor;
    int64_t at, bytes;
  };
  std::vector<Piece> pieces_;
  std::vector<int> descriptors_;
  int64_t bytes_ = 0;
};

void Measure(const Arguments& arguments) {
  const trainer::TrainedModel trained =
      trainer::OpenTrainedModel(arguments.folder, {"device=cpu"}, {});
  ThreadPool pool(arguments.threads);
  trainer::CompileOptions options = trainer::InferenceOptions(trained, arguments.dtype);
  options.evaluate = true;
  options.threads = arguments.threads;
  trainer::Session session(trainer::Compile(*trained.model, options), pool);
  session.Initialize(*trained.model, 1);  // the arena's pages are there from now on
  const Files files(arguments.folder);
  std::vector<std::vector<std::byte>> buffers(static_cast<size_t>(arguments.threads),
                                              std::vector<std::byte>(kReadBytes));
  fmt::print("{}: {}, {} threads, parameters of {}, {} resident\n\n", arguments.folder,
             FormatBytes(files.bytes()), arguments.threads, arguments.dtype,
             FormatBytes(runtime::MeasureProcessMemory().peak_resident_bytes));
  fmt::print("{:<8} {:>10} {:>10} {:>14} {:>10} {:>8}\n", "files", "pread s", "GB/s",
             "LoadWeights s", "GB/s", "ratio");
  const auto rate = [&](double seconds) {
    return static_cast<double>(files.bytes()) / seconds / 1e9;
  };
  for (const bool cold : {true, false}) {
    for (int round = 0; round < arguments.rounds; ++round) {
      if (cold) files.Forget();
      const double read = SecondsOf([&] { files.Read(pool, buffers); });
      if (cold) files.Forget();
      const double loaded =
          SecondsOf([&] { session.LoadWeights(*trained.model, arguments.folder); });
      fmt::print("{:<8} {:>10.3f} {:>10.2f} {:>14.3f} {:>10.2f} {:>8.2f}\n",
                 cold ? "on disk" : "cached", read, rate(read), loaded, rate(loaded),
                 loaded / read);
    }
  }
  fmt::print("\n{} resident at most\n",
             FormatBytes(runtime::MeasureProcessMemory().peak_resident_bytes));
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  plimsoll::bench::Arguments arguments;
  arguments.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  CLI::App app("Times the reading of a checkpoint");
  app.add_option("folder", arguments.folder)->required();
  app.add_option("--threads", arguments.threads);
  app.add_option("--dtype", arguments.dtype);
  app.add_option("--rounds", arguments.rounds);
  CLI11_PARSE(app, argc, argv);
  return plimsoll::bench::RunBenchmark([&] { plimsoll::bench::Measure(arguments); });
}
