// bazel run //bench:pictures -- FOLDER [--side N] [--rounds N]
//
// How many JPEG files of a folder of classes one thread prepares a second (the source "images"):
// random crops of 224 × 224, exact and fast, and the middle as evaluations take it. Next to it the
// floor: libjpeg-turbo decoding whole files, without anything else. The time is the thread's own,
// the best of several rounds through all files. How far fast pixels are from exact ones, in bytes
// of 0 to 255, is taken over the same crops.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/function_ref.h"
#include "base/mapped_file.h"
#include "data/source.h"
#include "formats/jpeg.h"

namespace plimsoll::bench {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int64_t kChannels = 3;

struct Arguments {
  std::string folder;
  int64_t side = 224;
  int64_t rounds = 5;
};

double ThreadSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The least seconds of a round.
double BestOf(int64_t rounds, FunctionRef<void()> work) {
  double best = HUGE_VAL;
  for (int64_t i = 0; i < rounds; ++i) {
    const double start = ThreadSeconds();
    work();
    best = std::min(best, ThreadSeconds() - start);
  }
  return best;
}

// Bytes as floats: what is seen is 255 times what the source gives.
std::unique_ptr<data::Source> SourceOf(const Arguments& arguments, const std::string& decode,
                                       bool crops) {
  const data::SourceKind* const kind = data::FindSource("images");
  Settings settings;
  settings.Set("folder", arguments.folder);
  settings.Set("mean", std::vector<double>{0});
  settings.Set("std", std::vector<double>{1});
  settings.Set("decode", decode);
  settings.Set("random_resized_crop", crops);
  CompleteSettings(kind->settings, kind->complete, settings);
  return kind->make(settings, {.images = {1, arguments.side, arguments.side, kChannels}}, kSeed);
}

// Images one at a time.
class Reader {
 public:
  explicit Reader(int64_t side)
      : shape_({1, side, side, kChannels}), values_(static_cast<size_t>(shape_.elements())) {}

  const std::vector<float>& Read(const data::Source& source, int64_t sample) {
    source.Fill(sample, std::vector<graph::Slot>{{"images",
                                                  {graph::DType::kFloat32, shape_},
                                                  std::as_writable_bytes(std::span(values_))}});
    return values_;
  }

 private:
  graph::Shape shape_;
  std::vector<float> values_;
};

void PrintRate(const char* what, double seconds, int64_t files) {
  const auto count = static_cast<double>(files);
  fmt::print("{:<32} {:>6.3f} ms {:>7.0f}/s\n", what, 1e3 * seconds / count, count / seconds);
}

void PrintDistance(const data::Source& exact, const data::Source& fast, const Arguments& arguments,
                   int64_t files) {
  Reader reader(arguments.side);
  double sum = 0, largest = 0;
  int64_t count = 0;
  for (int64_t sample = 0; sample < files; ++sample) {
    const std::vector<float> pixels = reader.Read(exact, sample);
    const std::vector<float>& near = reader.Read(fast, sample);
    for (size_t i = 0; i < pixels.size(); ++i) {
      const double difference = 255 * std::abs(double{pixels[i]} - near[i]);
      sum += difference;
      largest = std::max(largest, difference);
    }
    count += std::ssize(pixels);
  }
  fmt::print("fast from exact pixels, of 255: {:.2f} on average, {:.0f} at most\n",
             sum / static_cast<double>(count), largest);
}

void Run(const Arguments& arguments) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           arguments.folder, std::filesystem::directory_options::follow_directory_symlink)) {
    if (entry.is_regular_file() && entry.path().extension() == ".jpg") {
      paths.push_back(entry.path().string());
    }
  }
  const auto files = std::ssize(paths);
  if (files == 0) throw UserError(arguments.folder + ": holds no .jpg files");
  const double whole = BestOf(arguments.rounds, [&] {
    for (const std::string& path : paths) {
      formats::DecodeJpeg(MappedFile(path).bytes(), path, formats::kMostRasterPixels);
    }
  });
  PrintRate("libjpeg-turbo, whole files", whole, files);

  Reader reader(arguments.side);
  const auto exact = SourceOf(arguments, "exact", true), fast = SourceOf(arguments, "fast", true);
  const auto middle = SourceOf(arguments, "exact", false);
  const auto time = [&](const char* what, const data::Source& source) {
    int64_t sample = 0;
    const double seconds = BestOf(arguments.rounds, [&] {
      for (int64_t i = 0; i < files; ++i) reader.Read(source, sample++);
    });
    PrintRate(what, seconds, files);
  };
  time("random crops, exact", *exact);
  time("random crops, fast", *fast);
  time("the middle, exact", *middle);
  PrintDistance(*exact, *fast, arguments, files);
}

int Main(int argc, char** argv) {
  CLI::App app("Times the preparation of JPEG files on one thread.");
  Arguments arguments;
  app.add_option("folder", arguments.folder, "JPEG files in folders of their classes")->required();
  app.add_option("--side", arguments.side, "pixels of a side that a model sees")
      ->check(CLI::Range(1, 10000));
  app.add_option("--rounds", arguments.rounds, "of which the best counts")
      ->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  try {
    Run(arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) { return plimsoll::bench::Main(argc, argv); }
