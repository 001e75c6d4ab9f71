// The bytes of TensorBoard's event files: records in TensorFlow's TFRecord format, each an Event in
// Protocol Buffers (tensorflow/core/util/event.proto, framework/summary.proto).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::reports {

// length (8 bytes), its masked checksum (4), the bytes, their masked checksum (4); little-endian.
std::string Record(std::string_view bytes);

// Events. `wall_time` in seconds since 1970.
std::string VersionEvent(double wall_time);  // the first of a file
// Invalidates the events of this step and later ones in earlier files of the folder.
std::string RestartEvent(double wall_time, int64_t step);
std::string ScalarEvent(double wall_time, int64_t step, std::string_view tag, double value);
// Markdown for TensorBoard's text page.
std::string TextEvent(double wall_time, int64_t step, std::string_view tag, std::string_view text);

}  // namespace plimsoll::reports
