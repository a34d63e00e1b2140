// Prefix cache: KV pages found by the tokens that they were computed from. Its entries form a tree;
// an entry is a page of kKeyTile tokens (the last page of a text may have fewer), identified by
// scope, parent and tokens. A page that only the cache holds is kept until it is evicted: the least
// recently used first, and within a prefix the last page.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/execute/kv_pool.h"
#include "model/token_id.h"

namespace cria {

/// Length of the common prefix of two texts, in tokens.
inline std::size_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

class PrefixCache {
 public:
  /// An entry. The serial number distinguishes it from later users of its slot; 0: the root.
  struct Ref {
    std::uint32_t entry = 0;
    std::uint64_t serial = 0;
  };

  /// Allocates all entries: each holds at least one page of the pool. Must not outlive the pool.
  explicit PrefixCache(KvPool& pool);

  /// An entry and the number of its leading tokens that match; 0: none.
  struct Match {
    Ref ref;
    std::size_t tokens = 0;
  };
  /// Returns the child of `parent` with the longest common prefix.
  [[nodiscard]] Match longest(std::uint64_t scope, Ref parent,
                              std::span<const TokenId> tokens) const;
  /// Adds a page of at most kKeyTile tokens: page `index` of the table of each group. If the entry
  /// exists, adds the groups that it lacks and replaces pages in the tables by the entry's. A
  /// longer entry stays unchanged; shorter ones are dropped.
  Ref add(std::uint64_t scope, Ref parent, std::span<const TokenId> tokens, PageTables& tables,
          std::size_t index);
  /// kNoPage if the group's page or the whole entry was evicted.
  [[nodiscard]] PageId page(Ref ref, std::size_t group) const;
  /// Marks the pages of a prefix as just used.
  void touch(std::span<const Ref> prefix);
  /// Frees a page of the group that only the cache holds. Returns false if none can be freed.
  bool evict(std::size_t group);
  /// Gives up a page for the sequence that shares it.
  void release(std::size_t group, PageId page);

 private:
  struct Entry {
    std::uint64_t serial = 0;  // 0: free
    std::uint64_t scope = 0, parent = 0, used = 0;
    std::uint32_t depth = 0, next = 0;  // next: in the bucket or the free list
    std::uint32_t n = 0;
    std::array<TokenId, kKeyTile> tokens{};
    [[nodiscard]] std::span<const TokenId> text() const { return std::span(tokens).first(n); }
  };
  [[nodiscard]] std::size_t bucket(std::uint64_t scope, std::uint64_t parent) const;
  Ref create(std::uint64_t scope, Ref parent, std::span<const TokenId> tokens, std::size_t index);
  void drop_shorter(std::uint64_t scope, Ref parent, std::span<const TokenId> tokens);
  [[nodiscard]] PageId& place(std::uint32_t entry, std::size_t group) {
    return places_[entry * pool_.kept_groups() + group];
  }
  void drop(std::uint32_t entry, std::size_t group);

  KvPool& pool_;
  std::vector<Entry> entries_;
  std::vector<PageId> places_;          // [entry][group]
  std::vector<std::uint32_t> buckets_;  // first entry, or kNone
  std::uint32_t free_;
  std::uint64_t last_serial_ = 0, clock_ = 0;
};

}  // namespace cria
