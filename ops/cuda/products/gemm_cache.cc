#include "ops/cuda/products/gemm_cache.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/output_file.h"

namespace plimsoll::ops {
namespace {

constexpr std::string_view kTitle = "plimsoll matrix products 2";
constexpr std::string_view kChecksum = "checksum ";
constexpr size_t kWordDigits = 16;

uint64_t Fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// Reads all of `text`, or fails.
bool ParseHex(std::string_view text, uint64_t& value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

bool ParseAlgorithm(std::string_view text, cublasLtMatmulAlgo_t& algorithm) {
  if (text.size() != std::size(algorithm.data) * kWordDigits) return false;
  for (uint64_t& word : algorithm.data) {
    if (!ParseHex(text.substr(0, kWordDigits), word)) return false;
    text.remove_prefix(kWordDigits);
  }
  return true;
}

bool ParseMicroseconds(std::string_view text, double& value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() &&
         std::isfinite(value) && value > 0;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

GemmMeasurements ReadGemmMeasurements(const std::string& path, const std::string& device) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto fail = [&](size_t line, const char* reason) -> void {
    throw UserError(fmt::format("{}:{}: {}", path, line, reason));
  };

  const size_t checksum = text.rfind(kChecksum);
  uint64_t stated = 0;
  if (checksum == text.npos || text.back() != '\n' ||
      !ParseHex(std::string_view(text).substr(checksum + kChecksum.size(),
                                              text.size() - checksum - kChecksum.size() - 1),
                stated) ||
      stated != Fnv1a(std::string_view(text).substr(0, checksum))) {
    fail(1, "damaged: its checksum does not fit");
  }
  const std::vector<std::string_view> lines =
      Split(std::string_view(text).substr(0, checksum), '\n');
  if (lines.size() < 3 || lines[0] != kTitle) fail(1, "not a file of this version");
  if (lines[1] != device) fail(2, "of another device or cuBLAS");

  GemmMeasurements measurements;
  for (size_t i = 2; i + 1 < lines.size(); ++i) {  // the last line, before the checksum, is empty
    const std::vector<std::string_view> fields = Split(lines[i], ' ');
    GemmMeasurement measurement{};
    if (fields.size() != 3 || !ParseAlgorithm(fields[1], measurement.algorithm) ||
        !ParseMicroseconds(fields[2], measurement.microseconds)) {
      fail(i + 1, "not a problem, an algorithm and a time");
    }
    if (!measurements.emplace(fields[0], measurement).second) fail(i + 1, "a problem given twice");
  }
  return measurements;
}

void WriteGemmMeasurements(const std::string& path, const std::string& device,
                           const GemmMeasurements& measurements) {
  std::string text = fmt::format("{}\n{}\n", kTitle, device);
  for (const auto& [key, measurement] : measurements) {
    text += key + ' ';
    for (uint64_t word : measurement.algorithm.data) text += fmt::format("{:016x}", word);
    text += fmt::format(" {:.3f}\n", measurement.microseconds);
  }
  text += fmt::format("{}{:016x}\n", kChecksum, Fnv1a(text));
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  OutputFile file(path);
  file.Write(text);
  file.Commit();
}

}  // namespace plimsoll::ops
