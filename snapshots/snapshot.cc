#include "snapshots/snapshot.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <tuple>

#include "base/crc32c.h"
#include "base/mapped_file.h"

namespace plimsoll::snapshots {
namespace {

// The system is told about reads this number of pieces in advance.
constexpr size_t kAhead = 8;

// The most threads that only read and compute checksums.
constexpr unsigned kMostThreads = 16;
constexpr size_t kBufferBytes = size_t{256} << 10;

struct Piece {
  size_t slice = 0;  // index in the list of slices
  int64_t at = 0;    // offset in the slice's bytes
  int64_t bytes = 0;
  uint32_t crc = 0;  // known once the piece has been read
};

}  // namespace

Snapshot::Snapshot(const std::string& path) : path_(path) {
  const std::string file = path + "/" + kManifestFile;
  manifest_ = ParseManifest(MappedFile(file).text(), file);
  for (size_t i = 0; i < manifest_.shards.size(); ++i) shards_.emplace_back(path, manifest_, i);
}

void Snapshot::Read(const TensorRecord& tensor, const Slice& slice, std::span<std::byte> to) const {
  shards_[static_cast<size_t>(slice.shard)].Read(tensor, to);
}

void Snapshot::Read(std::span<const TensorSlice> slices, std::span<const StagingBuffer> buffers,
                    ThreadPool& pool, TakePiece take) const {
  const int64_t most = buffers.empty() ? 1 : static_cast<int64_t>(buffers.front().bytes.size());
  std::vector<Piece> pieces;
  for (size_t i = 0; i < slices.size(); ++i) {
    const int64_t size = formats::TypeBytes(slices[i].tensor->type);
    const int64_t bytes = slices[i].slice->elements * size;
    const int64_t step = std::max(most / size * size, size);  // a piece has only complete elements
    for (int64_t at = 0; at < bytes; at += step) {
      pieces.push_back({i, at, std::min(step, bytes - at)});
    }
  }
  // Number of pieces of each slice still to be read.
  std::vector<std::atomic<size_t>> left(slices.size());
  for (const Piece& piece : pieces) ++left[piece.slice];
  const auto shard_of = [&](const Piece& piece) -> const ShardReader& {
    return shards_[static_cast<size_t>(slices[piece.slice].slice->shard)];
  };
  std::vector<Piece*> in_files;  // the pieces, in the order of their places in the files
  for (Piece& piece : pieces) in_files.push_back(&piece);
  std::ranges::stable_sort(in_files, {}, [&](const Piece* piece) {
    const TensorSlice& of = slices[piece->slice];
    return std::tuple(of.slice->shard, shard_of(*piece).PlaceOf(*of.tensor), piece->at);
  });
  const auto will_read = [&](size_t i) {
    if (i >= in_files.size()) return;
    const Piece& piece = *in_files[i];
    shard_of(piece).WillRead(*slices[piece.slice].tensor, piece.at, piece.bytes);
  };
  for (size_t i = 0; i < kAhead; ++i) will_read(i);
  ForEachStaged(pool, buffers, pieces.size(), [&](size_t i, StagingTurns& turns) {
    will_read(i + kAhead);
    Piece& piece = *in_files[i];
    const ShardReader& shard = shard_of(piece);
    const TensorRecord& tensor = *slices[piece.slice].tensor;
    const std::span<std::byte> bytes = turns.Next().first(static_cast<size_t>(piece.bytes));
    shard.ReadPiece(tensor, piece.at, bytes);
    piece.crc = Crc32c(bytes);
    take(piece.slice, piece.at, bytes);
    // Also makes the other pieces' checksums visible to this thread.
    if (--left[piece.slice] > 0) return;
    uint32_t crc = 0;
    for (const Piece& part : std::ranges::equal_range(pieces, piece.slice, {}, &Piece::slice)) {
      crc = CombineCrc32c(crc, part.crc, static_cast<uint64_t>(part.bytes));
    }
    shard.CompareChecksum(tensor, crc);
  });
}

void Snapshot::Verify() const {
  std::vector<TensorSlice> slices;
  for (const TensorRecord& tensor : manifest_.tensors) {
    for (const Slice& slice : tensor.slices) slices.push_back({&tensor, &slice});
  }
  ThreadPool pool(
      static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads)));
  const HostStaging staging(pool.size(), kBufferBytes);
  Read(slices, staging.buffers(), pool, [](size_t, int64_t, std::span<const std::byte>) {});
}

}  // namespace plimsoll::snapshots
