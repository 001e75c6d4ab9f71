#include <unistd.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/crc32c.h"
#include "base/error.h"
#include "reports/curve_name.h"
#include "reports/metric_files.h"

namespace plimsoll::reports {
namespace {

static_assert(std::endian::native == std::endian::little);

// The encoding of a field's value (the low bits of its key).
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

template <typename T>
std::string Fixed(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string Key(int field, WireType type) {
  return Varint(static_cast<uint64_t>(field) << 3 | type);
}

std::string DoubleField(int field, double value) { return Key(field, kFixed64) + Fixed(value); }
std::string FloatField(int field, float value) { return Key(field, kFixed32) + Fixed(value); }
std::string IntField(int field, int64_t value) {
  return Key(field, kVarint) + Varint(static_cast<uint64_t>(value));
}
std::string BytesField(int field, std::string_view bytes) {
  return Key(field, kBytes) + Varint(bytes.size()) + std::string(bytes);
}

// Protocol buffer fields: Event {wall_time = 1, step = 2, summary = 5 {value = 1}}.
std::string SummaryEvent(double wall_time, int64_t step, const std::string& value) {
  return DoubleField(1, wall_time) + IntField(2, step) + BytesField(5, BytesField(1, value));
}

uint32_t MaskedCrc(std::string_view bytes) { return std::rotr(Crc32c(bytes), 15) + 0xa282ead8u; }

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "host";
}

}  // namespace

std::string Record(std::string_view bytes) {
  const std::string length = Fixed<uint64_t>(bytes.size());
  return length + Fixed(MaskedCrc(length)) + std::string(bytes) + Fixed(MaskedCrc(bytes));
}

std::string VersionEvent(double wall_time) {
  return DoubleField(1, wall_time) + BytesField(3, "brain.Event:2");
}

std::string RestartEvent(double wall_time, int64_t step) {
  // Fields: session_log = 7 {status = 1: START}
  constexpr int kStart = 1;
  return DoubleField(1, wall_time) + IntField(2, step) + BytesField(7, IntField(1, kStart));
}

std::string ScalarEvent(double wall_time, int64_t step, std::string_view tag, double value) {
  // Fields: Value {tag = 1, simple_value = 2}
  return SummaryEvent(wall_time, step,
                      BytesField(1, tag) + FloatField(2, static_cast<float>(value)));
}

std::string TextEvent(double wall_time, int64_t step, std::string_view tag, std::string_view text) {
  // Value {tag = 1, tensor = 8 {dtype = 1, shape = 2, string_val = 8},
  //        metadata = 9 {plugin_data = 1 {plugin_name = 1}, data_class = 4}}
  constexpr int kString = 7, kTensor = 2;
  const std::string tensor = IntField(1, kString) + BytesField(2, "") + BytesField(8, text);
  const std::string metadata = BytesField(1, BytesField(1, "text")) + IntField(4, kTensor);
  return SummaryEvent(wall_time, step,
                      BytesField(1, tag) + BytesField(8, tensor) + BytesField(9, metadata));
}

EventFile::EventFile(const std::string& folder)
    : path_(folder + "/events.out.tfevents." + std::to_string(static_cast<int64_t>(Now())) + "." +
            HostName() + "." + std::to_string(getpid())),
      file_(std::fopen(path_.c_str(), "ab")) {
  if (file_ == nullptr) throw UserError(path_ + ": cannot write (" + std::strerror(errno) + ")");
  Write(Record(VersionEvent(Now())));
}

EventFile::~EventFile() { std::fclose(file_); }

void EventFile::Restart(int64_t step) { Write(Record(RestartEvent(Now(), step))); }

void EventFile::AddRow(const nlohmann::ordered_json& row) {
  const double now = Now();
  const int64_t step = row.at("step");
  std::string records;
  for (const auto& [key, value] : row.items()) {
    if (!value.is_number() || key == "step") continue;
    records += Record(ScalarEvent(now, step, CurveName(key), value));
  }
  Write(records);
}

void EventFile::AddText(const std::string& tag, const std::string& text, int64_t step) {
  // Indents by four spaces, which makes a line of Markdown verbatim.
  std::string indented = "    ";
  for (char c : text) {
    indented += c;
    if (c == '\n') indented += "    ";
  }
  Write(Record(TextEvent(Now(), step, tag, indented)));
}

void EventFile::Write(const std::string& records) {
  if (std::fwrite(records.data(), 1, records.size(), file_) != records.size() ||
      std::fflush(file_) != 0) {
    throw UserError(path_ + ": cannot write (" + std::strerror(errno) + ")", ExitCode::kInternal);
  }
}

}  // namespace plimsoll::reports
