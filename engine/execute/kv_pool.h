// Keys and values of many sequences, one cache for each CacheSpec of a graph, in the layout of
// kernels/attention/attention.h. Positions lie in pages of kKeyTile, counted from 0. Caches of one
// kind and window form a group, as their positions come and go together: a page of a group is its
// part of all of them. A page is contiguous, so that free pages cost no memory even if the system
// uses huge pages. Pages are counted by reference; sequences know which positions they hold.
//
// Models with recurrent layers have two more groups, whose pages hold the states of all layers. A
// snapshot is the state behind the last position of a page; its table has kNoPage for pages without
// one. The table of live states has one page, behind the sequence's last position, and perhaps a
// second entry: the snapshot that must be copied there before the next token.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "engine/execute/machine.h"
#include "engine/graph/graph.h"
#include "kernels/attention/attention.h"

namespace cria {

using PageId = std::uint32_t;
inline constexpr PageId kNoPage = ~PageId{0};

/// Positions between the snapshots of recurrent states in a long prompt.
inline constexpr std::size_t kSnapshotInterval = 2048;
/// Snapshots that a sequence keeps without a prefix cache.
inline constexpr std::size_t kOwnSnapshots = 2;

/// The pages of a sequence by group and position / kKeyTile. kNoPage: evicted behind a window.
using PageTables = std::vector<std::vector<PageId>>;

/// The contents of a pool.
struct KvShape {
  KvType type{};
  std::size_t n_ctx = 0;      ///< positions of the longest sequence
  std::size_t n_batch = 0;    ///< tokens of a batch
  std::size_t sequences = 1;  ///< max live sequences
  std::size_t positions = 0;  ///< sum over all sequences; at least n_ctx
  bool has_prefix_cache = false;
  std::size_t kept = 0;  ///< positions for the prefix cache, which keeps windows everywhere
  HeldUnits held = {};   ///< this rank's part
};

class KvPool {
 public:
  static std::size_t bytes(const Graph& graph, const KvShape& shape);
  KvPool(const Graph& graph, const KvShape& shape);

  [[nodiscard]] std::size_t groups() const { return groups_.size(); }
  /// Groups of keys and values, the first ones.
  [[nodiscard]] std::size_t kv_groups() const { return groups_.size() - (has_states() ? 2 : 0); }
  /// Groups that the prefix cache keeps: all but the live states.
  [[nodiscard]] std::size_t kept_groups() const { return groups_.size() - (has_states() ? 1 : 0); }
  [[nodiscard]] bool has_states() const { return !states_.empty(); }
  [[nodiscard]] std::size_t snapshots() const { return groups_.size() - 2; }    ///< a group
  [[nodiscard]] std::size_t live_states() const { return groups_.size() - 1; }  ///< a group
  [[nodiscard]] std::size_t group_of(std::uint32_t cache) const { return layers_[cache].group; }
  [[nodiscard]] std::size_t pages(std::size_t group) const { return groups_[group].n_pages; }
  [[nodiscard]] std::size_t free_pages(std::size_t group) const {
    return groups_[group].free.size();
  }
  /// Returns the most pages of the group that a sequence holds: all positions, or the window and a
  /// batch.
  [[nodiscard]] std::size_t most_held(std::size_t group) const { return groups_[group].most_held; }
  /// Returns the page of the earliest position that position n reads.
  [[nodiscard]] std::size_t first_page(std::size_t group, std::size_t n) const {
    const std::size_t window = groups_[group].window;
    return window == 0 || n < window ? 0 : (n + 1 - window) / kKeyTile;
  }

  /// Returns a free page, now with one reference; kNoPage if none is free.
  PageId take(std::size_t group);
  void share(std::size_t group, PageId page) { ++groups_[group].references[page]; }
  void release(std::size_t group, PageId page);
  [[nodiscard]] std::uint32_t references(std::size_t group, PageId page) const {
    return groups_[group].references[page];
  }
  void copy(std::size_t group, PageId from, PageId to);
  /// Takes the pages of a sequence of n positions that no other shares; it makes no snapshots.
  PageTables take_all(std::size_t n);

  /// Returns what kernels need to write to and read from a cache; the caller adds tokens, heads and
  /// pages. Heads count from the rank's first.
  [[nodiscard]] KvStoreJob store_job(std::uint32_t cache) const;
  [[nodiscard]] AttentionJob attention_job(std::uint32_t cache, const AttentionOp& attention) const;
  /// Returns the memory of a state in a page of live states.
  [[nodiscard]] float* live(std::uint32_t state, PageId page) const {
    return states_[state].live + page * groups_[live_states()].page_bytes / sizeof(float);
  }
  /// Returns the number of a state's units, which are this rank's.
  [[nodiscard]] std::size_t state_units(std::uint32_t state) const {
    return states_[state].spec.units;
  }
  /// Copies units of a live state to a snapshot (save), or back.
  void copy_units(std::uint32_t state, PageId live, PageId snapshot, UnitRange units,
                  bool save) const;

  /// visit(pointer, bytes) for what positions from n on need of 0 … n-1. Order and sizes depend on
  /// the model and n only. tables: hold all these pages; null: pointers are null, too.
  template <class Visitor>
  void for_used_bytes(const PageTables* tables, std::size_t n, Visitor&& visit) const {
    for (const Layer& layer : layers_) {
      const std::size_t page_bytes = groups_[layer.group].page_bytes;
      const auto each_page = [&](std::byte* memory, std::size_t head_bytes, std::size_t row_bytes,
                                 bool whole) {
        for (std::size_t page = first_page(layer.group, n);
             memory != nullptr && page * kKeyTile < n; ++page) {
          const std::size_t rows = whole ? kKeyTile : std::min(kKeyTile, n - page * kKeyTile);
          std::byte* const at =
              tables == nullptr ? nullptr
                                : memory + head_bytes + (*tables)[layer.group][page] * page_bytes;
          visit(at, rows * row_bytes);
        }
      };
      for (std::size_t head = 0; head < layer.spec.n_kv_heads; ++head) {
        each_page(layer.k, head * layer.k_bytes, layer.k_bytes / kKeyTile, true);
        each_page(layer.v, head * layer.v_bytes, layer.v_bytes / kKeyTile, type_ == KvType::Q8_0);
      }
    }
    if (!has_states() || n == 0) return;
    std::byte* const live =
        tables == nullptr
            ? nullptr
            : reinterpret_cast<std::byte*>(this->live(0, (*tables)[live_states()][0]));
    visit(live, groups_[live_states()].page_bytes);
  }
  /// Returns all of its memory, for tests.
  [[nodiscard]] std::span<std::byte> memory() const { return {memory_.data(), memory_.size()}; }

 private:
  struct Group {
    bool latent;
    std::size_t window;  // 0: every position reads all before it
    std::size_t most_held, n_pages;
    std::vector<PageId> free;  // take() takes the last
    std::vector<std::uint32_t> references;
    std::size_t begin = 0;       // in memory_
    std::size_t page_bytes = 0;  // each head's keys of the first cache, its values, the next cache
  };
  struct Layer {
    CacheSpec spec;
    std::size_t group;
    std::size_t begin;             // in a page
    std::size_t k_bytes, v_bytes;  // per head and page; v_bytes is 0 if latent
    std::byte* k = nullptr;        // page 0 in memory_
    std::byte* v = nullptr;        // null if latent
  };
  struct State {
    StateSpec spec;
    std::size_t live_floats, snapshot_floats;    // before it in a page
    float *live = nullptr, *snapshot = nullptr;  // page 0 in memory_
  };
  struct Layout {
    std::vector<Group> groups;
    std::vector<Layer> layers;
    std::vector<State> states;
    [[nodiscard]] std::size_t bytes() const;
  };
  static Group group_for(const CacheSpec& spec, const KvShape& shape);
  static Layout layout(const Graph& graph, const KvShape& shape);
  static void add_states(Layout& layout, const Graph& graph, const KvShape& shape);

  KvType type_;
  std::vector<Group> groups_;
  std::vector<Layer> layers_;
  std::vector<State> states_;
  SystemMemory memory_;
};

}  // namespace cria
