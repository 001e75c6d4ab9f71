#include "parallel/prove_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/amounts.h"

namespace plimsoll::parallel {
namespace {

using Kind = RankCall::Kind;

std::string In(const CallList& list) {
  return list.program.empty() ? "between programs" : fmt::format("in program '{}'", list.program);
}

// Whether rank `a` of a program makes the same call as rank `b`. The peers of two transfers may
// differ, but must be at the same distance from their ranks.
bool Alike(const RankCall& a, int64_t rank_a, const RankCall& b, int64_t rank_b) {
  const bool of_transfers = a.transfer() || a.kind == Kind::kTransferDone;
  if (!of_transfers) return a == b;
  RankCall moved = b;
  moved.peer += rank_a - rank_b;
  return a == moved;
}

std::string CallAt(const CallList& list, size_t call) {
  return call < list.calls.size() ? Text(list.calls[call]) : "no more calls";
}

// The first difference between the calls of two ranks of one program; empty if they are equal.
std::string FirstDifference(const RankCalls& first, int64_t first_rank, const RankCalls& other,
                            int64_t rank) {
  const size_t runs = std::min(first.order.size(), other.order.size());
  for (size_t run = 0; run < runs; ++run) {
    const int64_t first_times = first.order[run].times, times = other.order[run].times;
    const CallList& of_first = *first.lists[first.order[run].list];
    const CallList& of_other = *other.lists[other.order[run].list];
    if (of_first.program == of_other.program && first_times != times) {
      return fmt::format("rank {} is {} {}, and rank {} {}", rank, In(of_other),
                         Counted(times, "time"), first_rank, first_times);
    }
    if (&of_first == &of_other && std::ranges::none_of(of_first.calls, &RankCall::transfer)) {
      continue;
    }
    if (of_first.program != of_other.program) {
      return fmt::format("rank {} is {} where rank {} is {}", rank, In(of_other), first_rank,
                         In(of_first));
    }
    const size_t calls = std::min(of_first.calls.size(), of_other.calls.size());
    size_t call = 0;
    while (call < calls && Alike(of_first.calls[call], first_rank, of_other.calls[call], rank)) {
      ++call;
    }
    if (call == of_first.calls.size() && call == of_other.calls.size()) continue;
    return fmt::format("rank {} {}: {}, where rank {} has {}", rank, In(of_other),
                       CallAt(of_other, call), first_rank, CallAt(of_first, call));
  }
  if (first.order.size() == other.order.size()) return "";
  return fmt::format("rank {} runs {} of calls, and rank {} {}", rank,
                     Counted(other.order.size(), "list"), first_rank, first.order.size());
}

// Replays the calls of all ranks until none can continue.
class Replay {
 public:
  // `most_times`: the most consecutive repetitions of a call list that are replayed.
  Replay(const Mesh& mesh, std::span<const RankCalls> ranks, int64_t most_times)
      : mesh_(mesh), most_times_(most_times) {
    for (const RankCalls& calls : ranks) {
      ranks_.emplace_back(calls);
      for (const auto& list : calls.lists) {
        ranks_.back().counted.emplace_back(list->calls.size(), false);
      }
    }
  }

  CallProof Run() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) ready_.push_back(rank);
    while (!ready_.empty() && proof_.problem.empty()) {
      const size_t rank = ready_.front();
      ready_.pop_front();
      Advance(rank);
    }
    if (proof_.problem.empty()) proof_.problem = Unfinished();
    proof_.programs = static_cast<int64_t>(programs_.size());
    return proof_;
  }

 private:
  struct Place {
    int list = 0;
    size_t call = 0;
  };
  struct Stream {
    std::string name;
    std::deque<Place> queue;  // calls that have started and have not yet met their peers
    int64_t started = 0, met = 0;
  };
  // A started call. It has ended when the calls met in its stream exceed its number.
  struct Started {
    size_t stream = 0;
    int64_t number = 0;
    Place place;
  };
  struct Rank {
    explicit Rank(const RankCalls& calls) : calls(calls) {}

    const RankCalls& calls;
    size_t run = 0;     // the current run: an index into calls.order
    int64_t times = 0;  // how often the current list has ended in this run
    size_t call = 0;    // the next call of the current list
    std::vector<Stream> streams = {};
    std::vector<Started> open = {};  // started calls whose done call is still to come
    std::optional<Started> awaits = {};
    // For each list and call: whether the proof has counted the call.
    std::vector<std::vector<bool>> counted = {};

    const CallList& list(Place place) const { return *calls.lists[place.list]; }
    const RankCall& at(Place place) const { return list(place).calls[place.call]; }
    bool Ended(const Started& started) const {
      return started.number < streams[started.stream].met;
    }
    size_t StreamOf(const std::string& name) {
      const auto found = std::ranges::find(streams, name, &Stream::name);
      if (found == streams.end()) streams.push_back({.name = name, .queue = {}});
      return static_cast<size_t>(std::ranges::find(streams, name, &Stream::name) - streams.begin());
    }
    // The first call that waits in this rank's stream; nullopt if no call waits.
    std::optional<Place> Head(const std::string& stream) const {
      const auto found = std::ranges::find(streams, stream, &Stream::name);
      if (found == streams.end() || found->queue.empty()) return std::nullopt;
      return found->queue.front();
    }
    void Meet(const std::string& stream) {
      Stream& of = streams[StreamOf(stream)];
      of.queue.pop_front();
      ++of.met;
    }
  };

  std::string Where(size_t rank, Place place) const {
    return fmt::format("rank {} {}: {}", rank, In(ranks_[rank].list(place)),
                       Text(ranks_[rank].at(place)));
  }

  // Makes the calls of the rank until it has to wait.
  void Advance(size_t number) {
    Rank& rank = ranks_[number];
    for (size_t stream = 0; stream < rank.streams.size(); ++stream) MeetAll(number, stream);
    while (proof_.problem.empty()) {
      if (rank.awaits && !rank.Ended(*rank.awaits)) return;
      rank.awaits.reset();
      if (rank.run == rank.calls.order.size()) return;
      const auto [list, times] = rank.calls.order[rank.run];
      const Place place{list, rank.call};
      if (place.call == rank.list(place).calls.size()) {
        EndList(number);
        rank.call = 0;
        if (++rank.times < std::min(times, most_times_)) continue;
        rank.times = 0;
        ++rank.run;
        continue;
      }
      ++rank.call;
      if (rank.at(place).done()) {
        Await(number, place);
      } else {
        Start(number, place);
      }
    }
  }

  void Start(size_t number, Place place) {
    Rank& rank = ranks_[number];
    const RankCall& call = rank.at(place);
    const size_t stream = rank.StreamOf(call.stream);
    const Started started{stream, rank.streams[stream].started++, place};
    rank.streams[stream].queue.push_back(place);
    if (call.kind == Kind::kCollectiveStart || (call.transfer() && !call.blocks)) {
      if (FindOpen(rank, call) != rank.open.end()) {
        proof_.problem = Where(number, place) + ", which starts again before its end";
        return;
      }
      rank.open.push_back(started);
    }
    if (call.blocks) rank.awaits = started;
    MeetAll(number, stream);
  }

  void Await(size_t number, Place place) {
    Rank& rank = ranks_[number];
    const auto open = FindOpen(rank, rank.at(place));
    if (open == rank.open.end()) {
      proof_.problem = Where(number, place) + ", which nothing started";
      return;
    }
    rank.awaits = *open;
    rank.open.erase(open);
  }

  // Reports calls that are still open at the end of a list. Only transfers may stay open, because
  // the executor runs a program with its collectives as one.
  void EndList(size_t number) {
    const Rank& rank = ranks_[number];
    const bool last = rank.run + 1 == rank.calls.order.size();
    for (const Started& started : rank.open) {
      if (!last && rank.at(started.place).transfer()) continue;
      proof_.problem = Where(number, started.place) + ", whose end is never awaited";
      return;
    }
  }

  // The open call that equals `call`, or that `call` awaits.
  static std::vector<Started>::iterator FindOpen(Rank& rank, const RankCall& call) {
    const bool transfer = call.transfer() || call.kind == Kind::kTransferDone;
    return std::ranges::find_if(rank.open, [&](const Started& started) {
      const RankCall& other = rank.at(started.place);
      return other.transfer() == transfer && other.tensor == call.tensor && other.slot == call.slot;
    });
  }

  void MeetAll(size_t rank, size_t stream) {
    while (proof_.problem.empty() && !ranks_[rank].streams[stream].queue.empty()) {
      const Place head = ranks_[rank].streams[stream].queue.front();
      const bool met =
          ranks_[rank].at(head).transfer() ? MeetPeer(rank, head) : MeetGroup(rank, head);
      if (!met) return;
    }
  }

  // Ends the collective if it is next in the stream of every rank of the group. Returns whether it
  // has ended.
  bool MeetGroup(size_t rank, Place place) {
    const RankCall& call = ranks_[rank].at(place);
    const std::vector<int64_t> group = mesh_.GroupOf(static_cast<int64_t>(rank), call.stream);
    std::vector<Place> heads;
    for (const int64_t member : group) {
      const std::optional<Place> head = ranks_[member].Head(call.stream);
      if (!head) return false;
      heads.push_back(*head);
    }
    for (size_t i = 1; i < group.size(); ++i) {
      if (ranks_[group[i]].at(heads[i]) == ranks_[group[0]].at(heads[0])) continue;
      proof_.problem =
          fmt::format("{}; it meets {}", Where(group[i], heads[i]), Where(group[0], heads[0]));
      return false;
    }
    if (group.size() > 1) Count(group[0], heads[0], proof_.collectives);
    for (const int64_t member : group) End(member, rank, call.stream);
    return true;
  }

  // Ends a send and its receive if each is next in its rank's stream. Returns whether they have
  // ended.
  bool MeetPeer(size_t rank, Place place) {
    const RankCall& call = ranks_[rank].at(place);
    if (call.peer < 0 || call.peer >= mesh_.size() || call.peer == static_cast<int64_t>(rank)) {
      proof_.problem = Where(rank, place) + ", which is no other rank";
      return false;
    }
    const auto peer = static_cast<size_t>(call.peer);
    const std::optional<Place> head = ranks_[peer].Head(call.stream);
    if (!head) return false;
    const RankCall& other = ranks_[peer].at(*head);
    const bool meet =
        other.transfer() && other.peer == static_cast<int64_t>(rank) && other.kind != call.kind;
    if (!meet) return false;
    if (other.types != call.types || other.micro_batch != call.micro_batch) {
      proof_.problem = fmt::format("{}; it meets {}", Where(rank, place), Where(peer, *head));
      return false;
    }
    const bool sends = call.kind == Kind::kSend;
    Count(sends ? rank : peer, sends ? place : *head, proof_.pairs);
    End(static_cast<int64_t>(peer), rank, call.stream);
    End(static_cast<int64_t>(rank), rank, call.stream);
    return true;
  }

  // Ends the first call in that stream of rank `member`. `now` is the rank that is being replayed.
  void End(int64_t member, size_t now, const std::string& stream) {
    ranks_[member].Meet(stream);
    if (static_cast<size_t>(member) != now) ready_.push_back(static_cast<size_t>(member));
  }

  void Count(size_t rank, Place place, int64_t& count) {
    std::vector<bool>& counted = ranks_[rank].counted[place.list];
    if (counted[place.call]) return;
    counted[place.call] = true;
    ++count;
    const RankCall& call = ranks_[rank].at(place);
    if (call.collective()) programs_.insert(ranks_[rank].list(place).program);
  }

  // The call at which the rank waits: the first call that blocks it, or that no other rank matches.
  std::optional<Place> WaitsAt(const Rank& rank) const {
    if (rank.awaits) return rank.streams[rank.awaits->stream].queue.front();
    for (const Stream& stream : rank.streams) {
      if (!stream.queue.empty()) return stream.queue.front();
    }
    return std::nullopt;
  }

  // The rank for which the call waits.
  size_t Missing(size_t rank, const RankCall& call) const {
    if (call.transfer()) return static_cast<size_t>(call.peer);
    const std::vector<int64_t> group = mesh_.GroupOf(static_cast<int64_t>(rank), call.stream);
    return static_cast<size_t>(*std::ranges::find_if(
        group, [&](int64_t member) { return !ranks_[member].Head(call.stream); }));
  }

  // Describes the ranks that wait for each other, beginning with the first; empty if all calls have
  // ended.
  std::string Unfinished() const {
    size_t rank = 0;
    while (rank < ranks_.size() && !WaitsAt(ranks_[rank])) ++rank;
    if (rank == ranks_.size()) return "";
    std::string text = "deadlock: ";
    std::set<size_t> named;
    while (named.insert(rank).second) {
      const std::optional<Place> place = WaitsAt(ranks_[rank]);
      if (!place) return text + fmt::format("rank {} has ended", rank);
      const size_t missing = Missing(rank, ranks_[rank].at(*place));
      text += fmt::format("{}, waits for rank {}; ", Where(rank, *place), missing);
      rank = missing;
    }
    text.resize(text.size() - 2);
    return text;
  }

  const Mesh& mesh_;
  const int64_t most_times_;
  std::vector<Rank> ranks_;
  std::deque<size_t> ready_;
  std::set<std::string> programs_;
  CallProof proof_;
};

}  // namespace

CallProof ProveCalls(const Mesh& mesh, std::span<const RankCalls> ranks, std::string_view apart) {
  for (int64_t rank = 0; rank < mesh.size(); ++rank) {
    for (const MeshAxis& axis : mesh.axes()) {
      if (axis.name == apart) continue;
      const int64_t first = mesh.GroupOf(rank, axis.name).front();
      if (first == rank) continue;
      const std::string problem = FirstDifference(ranks[first], first, ranks[rank], rank);
      if (!problem.empty()) return {.problem = problem};
    }
  }
  // If all ranks have one program, they finish each repetition of a list together. Therefore the
  // third repetition of a list would equal the second, and two repetitions are enough.
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  return Replay(mesh, ranks, apart.empty() ? 2 : kAll).Run();
}

}  // namespace plimsoll::parallel
